#include "text/jinja/loop.h"

#include <utility>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/interpreter_guards.h"
#include "text/jinja/unicode.h"

namespace weir::text::jinja {

namespace {

struct NoItems : IteratorObject {
  bool next(Interpreter&, Value&) override { return false; }
};

struct ItemsOfList : IteratorObject {
  Value list;
  std::size_t at = 0;
  bool next(Interpreter&, Value& out) override {
    if (at >= list.list().items.size()) return false;
    out = list.list().items[at++];
    return true;
  }
};

struct ItemsOfDict : IteratorObject {
  std::shared_ptr<DictObject> dict;
  ViewObject::What what = ViewObject::What::kKeys;
  std::size_t at = 0;
  bool next(Interpreter& in, Value& out) override {
    if (at >= dict->entries.size()) return false;
    const auto& [key, value] = dict->entries[at++];
    out = what == ViewObject::What::kKeys     ? key
          : what == ViewObject::What::kValues ? value
                                              : make_tuple({key, value}, in.budget());
    return true;
  }
};

struct ItemsOfRange : IteratorObject {
  RangeObject range;
  std::int64_t at = 0;
  bool next(Interpreter&, Value& out) override {
    if (at >= range.length) return false;
    out = Value::integer(range.start + at++ * range.step);
    return true;
  }
};

struct ItemsOfString : IteratorObject {
  Value string;
  std::size_t at = 0;
  bool next(Interpreter& in, Value& out) override {
    const Text& text = string.text();
    if (at >= text.size()) return false;
    const std::size_t end = at + char_size(static_cast<unsigned char>(text.bytes()[at]));
    in.budget().spend(sizeof(StringObject));
    out = Value::string(slice(text, at, end));
    at = end;
    return true;
  }
};

}  // namespace

std::shared_ptr<IteratorObject> Interpreter::iterate(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return std::make_shared<NoItems>();
    case Kind::kString: {
      auto items = std::make_shared<ItemsOfString>();
      items->string = value;
      return items;
    }
    case Kind::kList:
    case Kind::kTuple: {
      auto items = std::make_shared<ItemsOfList>();
      items->list = value;
      return items;
    }
    case Kind::kDict:
    case Kind::kView: {
      auto items = std::make_shared<ItemsOfDict>();
      items->dict = value.is_dict() ? std::static_pointer_cast<DictObject>(value.object()) : value.view().dict;
      if (value.is(Kind::kView)) items->what = value.view().what;
      return items;
    }
    case Kind::kRange: {
      auto items = std::make_shared<ItemsOfRange>();
      items->range = value.range();
      return items;
    }
    case Kind::kIterator:
      return std::static_pointer_cast<IteratorObject>(value.object());
    default:
      raise("'{}' object is not iterable", type_name(value));
  }
}

std::vector<Value> Interpreter::to_items(const Value& value) {
  if (value.is_list() || value.is_tuple()) {
    budget_.items(value.list().items.size());
    return value.list().items;
  }
  std::vector<Value> items;
  const auto source = iterate(value);
  for (Value item; source->next(*this, item);) {
    budget_.step();
    items.push_back(std::move(item));
    if (items.size() > kMaxItems) budget_.items(items.size());
  }
  budget_.items(items.size());
  return items;
}

Value make_iterator(std::shared_ptr<IteratorObject> iterator, const Value& source) {
  iterator->depth = depth_around(depth_of(source));
  return Value::object(Kind::kIterator, std::move(iterator));
}

bool LoopObject::next(Interpreter& in, Value& out) {
  if (!after.is_missing()) {
    out = std::exchange(after, Value());
  } else if (!items || !items->next(in, out)) {
    return false;
  }
  ++index0;
  before = std::exchange(current, out);
  return true;
}

const Value& LoopObject::peek(Interpreter& in) {
  if (after.is_missing() && items && !items->next(in, after)) after = Value();
  return after;
}

std::size_t LoopObject::length(Interpreter& in) {
  if (known_length) return *known_length;
  auto rest = std::make_shared<ItemsOfList>();
  std::vector<Value> values;
  for (Value item; items && items->next(in, item);) {
    in.budget().step();
    values.push_back(std::move(item));
  }
  known_length = values.size() + static_cast<std::size_t>(index0 + 1) + (after.is_missing() ? 0 : 1);
  rest->list = make_list(std::move(values), in.budget());
  items = std::move(rest);
  return *known_length;
}

void LoopObject::release() {
  items.reset();
  before = current = after = Value();
  last_changed.reset();
  scope.reset();
  recursive = nullptr;
}

std::string macro_label(const Value& macro) {
  const Stmt& definition = *macro_of(macro).definition;
  return definition.kind == StmtKind::kMacro ? "'" + definition.name + "'" : "anonymous";
}

}  // namespace weir::text::jinja
