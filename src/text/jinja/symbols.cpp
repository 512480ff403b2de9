#include "text/jinja/symbols.h"

#include <algorithm>

#include "base/check.h"

namespace weir::text::jinja {

int Symbols::define(const std::string& name, VariableLoad load) {
  const auto known = std::find(info_->names.begin(), info_->names.end(), name);
  const int slot = static_cast<int>(known - info_->names.begin());
  if (known == info_->names.end()) {
    if (info_->names.size() >= kMaxNamesPerScope)
      raise("a template may not use more than {} variables in one scope", kMaxNamesPerScope);
    info_->names.push_back(name);
  }
  refs_[name] = slot;
  loads_[slot] = load;
  return slot;
}

std::optional<Symbols::Place> Symbols::find(const std::string& name) const {
  int hops = 0;
  for (const Symbols* scope = this; scope != nullptr; scope = scope->parent_, ++hops)
    if (const auto found = scope->refs_.find(name); found != scope->refs_.end()) return Place{hops, found->second};
  return std::nullopt;
}

Symbols::Place Symbols::ref(const std::string& name) {
  const auto place = find(name);
  CHECK(place.has_value(), "the name {} was not collected", name);
  return *place;
}

int Symbols::declare(const std::string& name) {
  stores_.insert(name);
  return define(name, {VariableLoad::From::kParameter, 0, 0});
}

void Symbols::declare_targets(const Expr& target) {
  if (target.kind == ExprKind::kName) declare(target.name);
  for (const ExprPtr& item : target.items) declare_targets(*item);
}

void Symbols::load(const std::string& name) {
  if (!find(name)) define(name, {VariableLoad::From::kContext, 0, 0});
}

void Symbols::store(const std::string& name) {
  stores_.insert(name);
  if (refs_.contains(name)) return;
  if (const auto outer = find(name)) {
    define(name, {VariableLoad::From::kOuter, outer->first, outer->second});
  } else {
    define(name, {VariableLoad::From::kNothing, 0, 0});
  }
}

void Symbols::merge(const std::vector<Symbols>& branches) {
  std::set<std::string> stored;
  for (const Symbols& branch : branches) stored.insert(branch.stores_.begin(), branch.stores_.end());
  for (const std::string& name : stores_) stored.erase(name);
  for (const Symbols& branch : branches) {
    for (const auto& [name, slot] : branch.refs_) refs_[name] = slot;
    for (const auto& [slot, load] : branch.loads_) loads_[slot] = load;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const std::string& name : stored) {
    VariableLoad& load = loads_[refs_.at(name)];
    const auto outer = parent_ == nullptr ? std::nullopt : parent_->find(name);
    load = outer ? VariableLoad{VariableLoad::From::kOuter, outer->first + 1, outer->second}
                 : VariableLoad{VariableLoad::From::kContext, 0, 0};
  }
}

void Symbols::collect(const Expr& expr) {
  if (expr.kind == ExprKind::kName) load(expr.name);
  for (const ExprPtr& item : expr.items)
    if (item) collect(*item);
  if (!expr.call) return;
  for (const ExprPtr& arg : expr.call->positional) collect(*arg);
  for (const auto& [name, arg] : expr.call->named) collect(*arg);
  if (expr.call->star) collect(*expr.call->star);
  if (expr.call->double_star) collect(*expr.call->double_star);
}

void Symbols::collect_target(const Expr& target) {
  if (target.kind == ExprKind::kName) store(target.name);
  if (target.kind == ExprKind::kNamespaceRef) load(target.name);
  for (const ExprPtr& item : target.items) collect_target(*item);
}

void Symbols::collect(const Body& body) {
  for (const StmtPtr& statement : body) collect(*statement);
}

void Symbols::collect(const Stmt& statement) {
  switch (statement.kind) {
    case StmtKind::kOutput:
    case StmtKind::kCallBlock:
    case StmtKind::kWith:
      for (const ExprPtr& expr : statement.exprs) collect(*expr);
      return;
    case StmtKind::kFor:
      return collect(*statement.iterable);
    case StmtKind::kIf:
      return collect_if(statement);
    case StmtKind::kSet:
      collect(*statement.exprs[0]);
      return collect_target(*statement.target);
    case StmtKind::kSetBlock:
      return collect_target(*statement.target);
    case StmtKind::kMacro:
      return store(statement.name);
    case StmtKind::kFilterBlock:
      return collect(*statement.filter);
    default:
      return;
  }
}

// The first branch, all of elif together, and else each see the names known before the {% if %}.
void Symbols::collect_if(const Stmt& statement) {
  collect(*statement.exprs[0]);
  *work_ += (statement.branches.size() + 3) * (refs_.size() + 1);
  if (*work_ > kMaxResolverWork)
    raise_at(statement.line, "the template has too many conditions over too many variables");
  std::vector<Symbols> branches(3, *this);
  branches[0].collect(statement.branches[0]);
  for (std::size_t i = 1; i < statement.branches.size(); ++i) {
    branches[1].collect(*statement.exprs[i]);
    std::vector<Symbols> inner(1, branches[1]);
    inner[0].collect(statement.branches[i]);
    branches[1].merge(inner);
  }
  branches[2].collect(statement.else_body);
  merge(branches);
}

std::vector<std::pair<std::string, Symbols::Place>> Symbols::visible_stores() const {
  std::map<std::string, Place> found;
  for (const Symbols* scope = this; scope != nullptr; scope = scope->parent_)
    for (const std::string& name : scope->stores_)
      if (!found.contains(name)) found[name] = *find(name);
  return {found.begin(), found.end()};
}

void Symbols::finish() {
  info_->loads.resize(info_->names.size());
  for (const auto& [slot, load] : loads_) info_->loads[static_cast<std::size_t>(slot)] = load;
}

namespace {

// Reads of one name in the order of the source; stops looking once the name has been stored.
class UseFinder {
 public:
  explicit UseFinder(std::string_view name) : name_(name) {}

  void visit(const Body& body) {
    for (const StmtPtr& statement : body) visit(*statement);
  }
  bool found() const { return found_; }

 private:
  void visit(const Expr& expr) {
    if (done()) return;
    if (expr.kind == ExprKind::kName && expr.name == name_) found_ = true;
    for (const ExprPtr& item : expr.items)
      if (item) visit(*item);
    if (!expr.call) return;
    for (const ExprPtr& arg : expr.call->positional) visit(*arg);
    for (const auto& [name, arg] : expr.call->named) visit(*arg);
    if (expr.call->star) visit(*expr.call->star);
    if (expr.call->double_star) visit(*expr.call->double_star);
  }

  void store(const Expr& target) {
    if (target.kind == ExprKind::kName && target.name == name_) stored_ = true;
    for (const ExprPtr& item : target.items) store(*item);
  }

  void visit(const Stmt& statement) {
    if (done() || statement.kind == StmtKind::kBlock) return;
    if (statement.target) store(*statement.target);
    for (const ExprPtr& target : statement.targets) store(*target);
    if (statement.iterable) visit(*statement.iterable);
    if (statement.kind == StmtKind::kIf) {
      for (std::size_t i = 0; i < statement.branches.size(); ++i) {
        visit(*statement.exprs[i]);
        visit(statement.branches[i]);
      }
    } else {
      for (const ExprPtr& expr : statement.exprs) visit(*expr);
    }
    for (const Parameter& parameter : statement.parameters) stored_ = stored_ || parameter.name == name_;
    for (const Parameter& parameter : statement.parameters)
      if (parameter.fallback) visit(*parameter.fallback);
    visit(statement.body);
    visit(statement.else_body);
    if (statement.test) visit(*statement.test);
    if (statement.filter) visit(*statement.filter);
  }

  bool done() const { return found_ || stored_; }

  std::string_view name_;
  bool found_ = false, stored_ = false;
};

}  // namespace

bool uses(const Body& body, std::string_view name) {
  UseFinder finder(name);
  finder.visit(body);
  return finder.found();
}

}  // namespace weir::text::jinja
