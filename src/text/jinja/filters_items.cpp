// Filters on collections.

#include <algorithm>
#include <functional>

#include "text/jinja/filters.h"
#include "text/jinja/merge_sort.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode.h"

namespace weir::text::jinja {

namespace {

// "a.b.0": the way to a part of each item, with numbers as indices.
class Path {
 public:
  Path() = default;
  explicit Path(const Value& attribute) {
    if (attribute.is_missing() || attribute.is_none()) return;
    if (!attribute.is_string()) {
      parts_.push_back(attribute);
      return;
    }
    const std::string_view text = attribute.bytes();
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find('.', at), text.size());
      parts_.push_back(part(text.substr(at, end - at)));
      at = end + 1;
    }
  }

  Value get(Interpreter& in, Value item, const Value& fallback = {}) const {
    for (const Value& part : parts_) {
      item = in.item(item, part);
      if (item.is_undefined() && !fallback.is_missing() && !fallback.is_none()) item = fallback;
    }
    return item;
  }

 private:
  static Value part(std::string_view text) {
    constexpr std::size_t kMaxDigits = 18;
    if (text.empty() || text.size() > kMaxDigits || text.find_first_not_of("0123456789") != std::string_view::npos)
      return Value::string(std::string(text));
    Int index = 0;
    for (const char c : text) index = index * 10 + (c - '0');
    return Value::integer(index);
  }

  std::vector<Value> parts_;
};

Value ignore_case(Interpreter& in, const Value& value) {
  return value.is_string() ? Value::string(lower(value.text(), in.budget())) : value;
}

Value key_of(Interpreter& in, const Path& path, const Value& item, bool case_sensitive, const Value& fallback = {}) {
  const Value key = path.get(in, item, fallback);
  return case_sensitive ? key : ignore_case(in, key);
}

using Keyed = std::pair<Value, Value>;  // key, item

void sort_by_key(Interpreter& in, std::vector<Keyed>& items, bool reverse) {
  merge_sort(items, [&](const Keyed& a, const Keyed& b) {
    return reverse ? less(b.first, a.first, in.budget()) : less(a.first, b.first, in.budget());
  });
}

std::vector<Value> items_only(std::vector<Keyed> keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.second));
  return items;
}

Value filter_length(Interpreter&, const Value& value, const Args& args) {
  const Bound bound("len", args, {});
  if (const auto length = length_of(value)) return Value::integer(static_cast<Int>(*length));
  raise("object of type '{}' has no len()", type_name(value));
}

Value filter_list(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("list", args, {});
  return make_list(in.to_items(value), in.budget());
}

Value filter_first(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("first", args, {});
  Value item;
  return in.iterate(value)->next(in, item) ? item : Value::undefined("No first item, sequence was empty.");
}

Value filter_last(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("last", args, {});
  if (value.is(Kind::kIterator)) raise("'{}' object is not reversible", type_name(value));
  const Value nothing = Value::undefined("No last item, sequence was empty.");
  if (value.is_undefined()) return nothing;
  if (value.is_string() || value.is_list() || value.is_tuple() || value.is(Kind::kRange)) {
    if (*length_of(value) == 0) return nothing;
    return in.item(value.is_string() ? value.with_safe(false) : value, Value::integer(-1));
  }
  std::vector<Value> items = in.to_items(value);
  return items.empty() ? nothing : items.back();
}

struct Reversed : IteratorObject {
  std::vector<Value> items;
  bool next(Interpreter&, Value& out) override {
    if (items.empty()) return false;
    out = std::move(items.back());
    items.pop_back();
    return true;
  }
};

Value filter_reverse(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("reverse", args, {});
  if (value.is_string()) return slice_of(in, value, Value(), Value(), Value::integer(-1));
  std::vector<Value> items = in.to_items(value);
  if (value.is(Kind::kIterator)) {
    std::reverse(items.begin(), items.end());
    return make_list(std::move(items), in.budget());
  }
  auto reversed = std::make_shared<Reversed>();
  reversed->items = std::move(items);
  reversed->type_name = value.is_list() ? "list_reverseiterator" : "reversed";
  return make_iterator(std::move(reversed), value);
}

Value filter_join(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("join", args, {"d", "attribute"});
  const Text separator = bound.has(0) ? to_text(bound.at(0), in.budget()) : Text();
  const bool by_attribute = !bound.is_none(1);
  const Path path = by_attribute ? Path(bound.at(1)) : Path();
  TextBuilder out;
  bool first = true;
  const auto items = in.iterate(value);
  for (Value item; items->next(in, item); first = false) {
    in.budget().step();
    if (!first) out.append(separator);
    out.append(to_text(by_attribute ? path.get(in, item) : item, in.budget()));
    in.budget().limit(out.size());
  }
  in.budget().text(out.size());
  return Value::string(out.take());
}

// Python's generators look at what they iterate over only when they are asked for an item.
struct Deferred : IteratorObject {
  Value value;
  bool empty_if_false = false;
  std::shared_ptr<IteratorObject> items;
  bool next(Interpreter& in, Value& out) override {
    if (empty_if_false && !truth(value)) return false;
    if (!items) items = in.iterate(value);
    return items->next(in, out);
  }
};

std::shared_ptr<IteratorObject> deferred(const Value& value, bool empty_if_false) {
  auto made = std::make_shared<Deferred>();
  made->value = value;
  made->empty_if_false = empty_if_false;
  return made;
}

// A function over the items of an iterable, lazily.
struct Mapped : IteratorObject {
  std::shared_ptr<IteratorObject> source;
  std::function<bool(Interpreter&, Value&)> change;  // false: leave the item out
  bool next(Interpreter& in, Value& out) override {
    while (source->next(in, out)) {
      in.budget().step();
      if (change(in, out)) return true;
    }
    return false;
  }
};

Value lazily(const Value& value, std::function<bool(Interpreter&, Value&)> change) {
  auto mapped = std::make_shared<Mapped>();
  // Jinja looks at `if value` first, so none and false have no items instead of being an error.
  mapped->source = deferred(value, true);
  mapped->change = std::move(change);
  return make_iterator(std::move(mapped), value);
}

Args without_first(const Args& args, std::size_t count) {
  Args rest;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(count), args.positional.end());
  rest.named = args.named;
  return rest;
}

int depth_of_args(const Args& args) {
  int depth = 0;
  for (const Value& value : args.positional) depth = std::max(depth, depth_of(value));
  for (const auto& [name, value] : args.named) depth = std::max(depth, depth_of(value));
  return depth;
}

// The generator also holds its arguments.
Value with_args_depth(Value generator, const Args& args) {
  generator.object()->depth = std::max(generator.object()->depth, depth_around(depth_of_args(args)));
  return generator;
}

Value filter_map(Interpreter& in, const Value& value, const Args& args) {
  if (args.positional.empty()) {
    const Bound bound("map", args, {"attribute", "default"});
    if (!bound.has(0)) raise("map requires a filter argument");
    return with_args_depth(lazily(value,
                                  [path = Path(bound.at(0)), fallback = bound.has(1) ? bound.at(1) : Value()](
                                      Interpreter& inner, Value& item) {
                                    item = path.get(inner, item, fallback);
                                    return true;
                                  }),
                           args);
  }
  require_defined(args.positional[0]);
  if (!args.positional[0].is_string()) raise("No filter named {}.", to_repr(args.positional[0], in.budget()));
  return with_args_depth(lazily(value,
                                [name = std::string(args.positional[0].bytes()), rest = without_first(args, 1)](
                                    Interpreter& inner, Value& item) {
                                  item = inner.call_filter(name, item, rest);
                                  return true;
                                }),
                         args);
}

template <bool wanted, bool by_attribute>
Value filter_select(Interpreter& in, const Value& value, const Args& args) {
  constexpr std::size_t kTestAt = by_attribute ? 1 : 0;
  if (args.positional.size() < kTestAt) raise("Missing parameter for attribute name");
  Path path;
  if constexpr (by_attribute) path = Path(args.positional[0]);
  const bool has_test = args.positional.size() > kTestAt;
  std::string name;
  if (has_test) {
    const Value& test = args.positional[kTestAt];
    require_defined(test);
    if (!test.is_string()) raise("No test named {}.", to_repr(test, in.budget()));
    name = test.bytes();
  }
  Args rest = has_test ? without_first(args, kTestAt + 1) : Args();
  return with_args_depth(lazily(value,
                                [path = std::move(path), has_test, name = std::move(name), rest = std::move(rest)](
                                    Interpreter& inner, Value& item) {
                                  const Value subject = path.get(inner, item);
                                  return (has_test ? inner.call_test(name, subject, rest) : truth(subject)) == wanted;
                                }),
                         args);
}

Value filter_items(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("items", args, {});
  if (!value.is_undefined() && !value.is_dict())
    return lazily(make_tuple({value}, in.budget()),
                  [](Interpreter&, Value&) -> bool { raise("Can only get item pairs from a mapping."); });
  const Value items = value.is_undefined() ? value : in.call(find_attribute(in, value, "items"), {});
  return lazily(items, [](Interpreter&, Value&) { return true; });
}

Value filter_sort(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = bound.flag(1, false);
  std::vector<Path> paths;
  if (bound.is_none(2) || !bound.at(2).is_string()) {
    paths.emplace_back(bound.has(2) ? bound.at(2) : Value());
  } else {
    const Text comma(",", false);
    for (const Text& path : split(bound.at(2).text(), &comma, -1, false, in.budget()))
      paths.emplace_back(Value::string(path));
  }
  std::vector<Keyed> keyed;
  for (Value& item : in.to_items(value)) {
    std::vector<Value> keys;
    for (const Path& path : paths) keys.push_back(key_of(in, path, item, case_sensitive));
    keyed.emplace_back(make_list(std::move(keys), in.budget()), std::move(item));
  }
  sort_by_key(in, keyed, bound.flag(0, false));
  return make_list(items_only(std::move(keyed)), in.budget());
}

Value filter_dict_sort(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string_view by = bound.has(1) ? bound.string(1).bytes() : "key";
  if (by != "key" && by != "value") raise("You can only sort by either \"key\" or \"value\"");
  require_defined(value);
  if (!value.is_dict()) raise("'{}' object has no attribute 'items'", type_name(value));
  std::vector<Keyed> keyed;
  for (const auto& [key, item] : value.dict().entries) {
    const Value& by_value = by == "key" ? key : item;
    keyed.emplace_back(bound.flag(0, false) ? by_value : ignore_case(in, by_value),
                       make_tuple({key, item}, in.budget()));
  }
  sort_by_key(in, keyed, bound.flag(2, false));
  return make_list(items_only(std::move(keyed)), in.budget());
}

Value filter_unique(Interpreter&, const Value& value, const Args& args) {
  const Bound bound("unique", args, {"case_sensitive", "attribute"});
  auto unique = std::make_shared<Mapped>();
  unique->source = deferred(value, false);
  unique->change = [seen = std::make_shared<DictObject>(), case_sensitive = bound.flag(0, false),
                    path = Path(bound.has(1) ? bound.at(1) : Value())](Interpreter& inner, Value& item) {
    const Value key = key_of(inner, path, item, case_sensitive);
    if (seen->find(key) != nullptr) return false;
    add_entry(*seen, key, Value::none(), inner.budget());
    return true;
  };
  return make_iterator(std::move(unique), value);
}

template <bool maximum>
Value filter_extreme(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound(maximum ? "max" : "min", args, {"case_sensitive", "attribute"});
  const Path path(bound.has(1) ? bound.at(1) : Value());
  Value best, best_key;
  const auto items = in.iterate(value);
  for (Value item; items->next(in, item);) {
    Value key = key_of(in, path, item, bound.flag(0, false));
    const bool better =
        best_key.is_missing() || (maximum ? greater(key, best_key, in.budget()) : less(key, best_key, in.budget()));
    if (!better) continue;
    best = item;
    best_key = std::move(key);
  }
  return best_key.is_missing() ? Value::undefined("No aggregated item, sequence was empty.") : best;
}

Value filter_sum(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("sum", args, {"attribute", "start"});
  const Path path(bound.has(0) ? bound.at(0) : Value());
  Value sum = bound.has(1) ? bound.at(1) : Value::integer(0);
  if (sum.is_string()) raise("sum() can't sum strings [use ''.join(seq) instead]");
  const auto items = in.iterate(value);
  for (Value item; items->next(in, item);) {
    in.budget().step();
    sum = binary(in, BinaryOp::kAdd, sum, path.get(in, item));
  }
  return sum;
}

struct Batches : IteratorObject {
  std::shared_ptr<IteratorObject> source;
  std::size_t size = 1;
  Value fill;
  bool next(Interpreter& in, Value& out) override {
    std::vector<Value> batch;
    for (Value item; batch.size() < size && source->next(in, item);) {
      in.budget().step();
      batch.push_back(std::move(item));
    }
    if (batch.empty()) return false;
    if (!fill.is_none() && batch.size() < size) {
      in.budget().items(size);
      batch.resize(size, fill);
    }
    out = make_list(std::move(batch), in.budget());
    return true;
  }
};

Value filter_batch(Interpreter&, const Value& value, const Args& args) {
  const Bound bound("batch", args, {"linecount", "fill_with"}, 1);
  const std::int64_t size = require_index(bound.at(0));
  auto batches = std::make_shared<Batches>();
  batches->source = deferred(value, false);
  // Jinja starts a new batch when one has exactly this size: below 1 that never happens.
  batches->size = size >= 1 ? static_cast<std::size_t>(size) : kMaxItems;
  batches->fill = bound.has(1) && size >= 1 ? bound.at(1) : Value::none();
  return with_args_depth(make_iterator(std::move(batches), value), args);
}

struct Queue : IteratorObject {
  std::vector<Value> items;
  std::size_t at = 0;
  bool next(Interpreter&, Value& out) override { return at < items.size() && (out = items[at++], true); }
};

Value filter_slice(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("slice", args, {"slices", "fill_with"}, 1);
  const std::int64_t slices = require_index(bound.at(0));
  if (slices == 0) raise("integer division or modulo by zero");
  const std::vector<Value> items = in.to_items(value);
  in.budget().items(static_cast<std::size_t>(std::max<std::int64_t>(slices, 0)));
  auto queue = std::make_shared<Queue>();
  const auto count = static_cast<std::int64_t>(items.size());
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < slices; ++i) {
    in.budget().step();
    const bool longer = i < count % slices;
    const std::int64_t end = begin + count / slices + (longer ? 1 : 0);
    std::vector<Value> part(items.begin() + begin, items.begin() + end);
    if (!bound.is_none(1) && !longer) part.push_back(bound.at(1));
    queue->items.push_back(make_list(std::move(part), in.budget()));
    begin = end;
  }
  return with_args_depth(make_iterator(std::move(queue), make_list(items, in.budget())), args);
}

Value filter_group_by(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const Path path(bound.at(0));
  const Value fallback = bound.has(1) ? bound.at(1) : Value();
  const bool case_sensitive = bound.flag(2, false);
  std::vector<Keyed> keyed;
  for (Value& item : in.to_items(value)) {
    Value key = key_of(in, path, item, case_sensitive, fallback);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  sort_by_key(in, keyed, false);
  std::vector<Value> groups;
  for (std::size_t at = 0; at < keyed.size();) {
    std::vector<Value> group;
    std::size_t end = at;
    for (; end < keyed.size() && equals(keyed[end].first, keyed[at].first, in.budget()); ++end)
      group.push_back(keyed[end].second);
    if (end == at) group.push_back(keyed[end++].second);  // a key that is not even equal to itself
    const Value key = case_sensitive ? keyed[at].first : path.get(in, group[0], fallback);
    Value tuple = make_tuple({key, make_list(std::move(group), in.budget())}, in.budget());
    static_cast<ListObject&>(*tuple.object()).is_group = true;
    groups.push_back(std::move(tuple));
    at = end;
  }
  return make_list(std::move(groups), in.budget());
}

constexpr Filter kFilters[] = {
    {"length", filter_length},
    {"count", filter_length},
    {"join", filter_join},
    {"list", filter_list},
    {"map", filter_map},
    {"selectattr", filter_select<true, true>},
    {"rejectattr", filter_select<false, true>},
    {"select", filter_select<true, false>},
    {"reject", filter_select<false, false>},
    {"first", filter_first},
    {"last", filter_last},
    {"items", filter_items},
    {"dictsort", filter_dict_sort},
    {"reverse", filter_reverse},
    {"sort", filter_sort},
    {"unique", filter_unique},
    {"min", filter_extreme<false>},
    {"max", filter_extreme<true>},
    {"sum", filter_sum},
    {"batch", filter_batch},
    {"slice", filter_slice},
    {"groupby", filter_group_by},
};

}  // namespace

std::span<const Filter> item_filters() {
  return kFilters;
}

}  // namespace weir::text::jinja
