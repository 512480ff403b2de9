// Symbols: the names of one frame while a template is being resolved (scopes.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"

namespace weir::text::jinja {

class Symbols {
 public:
  // `info` outlives this and gets the result. `work` counts copied names over the whole template.
  Symbols(const Symbols* parent, ScopeInfo* info, std::size_t* work) : parent_(parent), info_(info), work_(work) {}

  // A variable that is given a value when the frame starts: a parameter, a loop's target.
  int declare(const std::string& name);
  void declare_targets(const Expr& target);
  // Notes what the frame reads and stores in these, without entering nested frames.
  void collect(const Body& body);
  void collect(const Expr& expr);

  // (hops, slot) of a name that was collected here or further out.
  std::pair<int, int> ref(const std::string& name);
  // All variables that are stored here or further out, as (name, (hops, slot)).
  std::vector<std::pair<std::string, std::pair<int, int>>> visible_stores() const;
  // Writes the loads to the ScopeInfo.
  void finish();

 private:
  using Place = std::pair<int, int>;

  void collect(const Stmt& statement);
  void collect_if(const Stmt& statement);
  void collect_target(const Expr& target);
  void load(const std::string& name);
  void store(const std::string& name);
  void merge(const std::vector<Symbols>& branches);
  int define(const std::string& name, VariableLoad load);
  std::optional<Place> find(const std::string& name) const;

  const Symbols* parent_;
  ScopeInfo* info_;
  std::size_t* work_;
  std::map<std::string, int> refs_;
  std::map<int, VariableLoad> loads_;
  std::set<std::string> stores_;
};

// Does the body read `name` before it stores it, nested frames included? Jinja's rule for `loop`, `caller`, `kwargs`
// and `varargs`.
bool uses(const Body& body, std::string_view name);

}  // namespace weir::text::jinja
