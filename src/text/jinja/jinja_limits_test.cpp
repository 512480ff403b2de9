// Hostile templates: each ends in an error, soon.

#include <gtest/gtest.h>

#include "text/chat_template.h"
#include "text/jinja/limits.h"

namespace weir::text {
namespace {

std::string repeat(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// With an empty reason the template may also render: it only has to end before the test's time limit.
void expect_refused(const std::string& source, std::string_view reason, const Json& context = Json::object()) {
  std::string message;
  if (const auto parsed = ChatTemplate::parse(source); !parsed) {
    message = parsed.error().message;
  } else if (const auto result = parsed->render_context(context, "2026-07-04T12:00:00"); !result) {
    message = result.error().message;
  }
  EXPECT_NE(message.find(reason), std::string::npos) << source.substr(0, 200) << "\n  " << message.substr(0, 500);
  EXPECT_LT(message.size(), 2000u);
}

void expect_rendered(const std::string& source, const std::string& expected, const Json& context = Json::object()) {
  const auto parsed = ChatTemplate::parse(source);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto result = parsed->render_context(context, "2026-07-04T12:00:00");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->text, expected);
}

TEST(JinjaLimits, Loops) {
  expect_refused("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "steps");
  expect_refused("{% for a in range(100000) %}{% for b in range(100000) if false %}{% endfor %}{% endfor %}", "steps");
  expect_refused("{{ range(1000000000)|list }}", "Range too big");
  expect_refused("{{ range(-9223372036854775807, 9223372036854775807) }}", "Range too big");
  expect_refused("{{ range(100000)|map('string')|map('upper')|select('eq', 'x')|list }}" + std::string("{{ 1 }}"), "");
  expect_refused("{% set l = range(100000)|list %}{% for a in l %}{% if a in l|reverse|list %}{% endif %}{% endfor %}",
                 "the template");
  expect_refused("{% set l = range(50000)|list %}{{ l|sort|batch(1)|sort(attribute=0)|unique|list }}{{ 1 / 0 }}", "");
}

TEST(JinjaLimits, Memory) {
  expect_refused("{{ 'x' * 1000000000 }}", "too long");
  expect_refused("{{ [1] * 1000000000 }}", "too long");
  expect_refused("{{ 'x' * 10000000000000000000000000 }}", "too long");
  expect_refused(
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "bytes");
  expect_refused("{% set ns = namespace(s=[1, 2]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
                 "of data");
  expect_refused("{% set s = 'x' * 1000000 %}{% for i in range(100000) %}{{ s }}{% endfor %}", "bytes");
  expect_refused("{% set s = 'x' * 1000000 %}{{ s|replace('x', s) }}", "bytes");
  expect_refused("{% set s = 'x' * 1000000 %}{{ s|list|map('center', 100000)|join }}", "the template");
  expect_refused("{{ '%1000000000d' % 1 }}", "width");
  expect_refused("{{ '%*d' % (1000000000000, 1) }}", "width");
  expect_refused("{{ '{:1000000000}'.format(1) }}", "width");
  expect_refused("{{ '{:.1000000000f}'.format(1.5) }}", "not allowed");
  expect_refused("{{ '{:.401f}'.format(1.5) }}", "precision");
  expect_refused("{{ '%.401f' % 1.5 }}", "precision");
  expect_refused("{{ 'a'.ljust(10000000000) }}", "bytes");
  expect_refused("{{ 'a'|center(10000000000) }}", "bytes");
  expect_refused("{{ 'a'.zfill(10000000000) }}", "bytes");
  expect_refused("{{ 'a\\nb'|indent(10000000000) }}", "bytes");
  expect_refused("{{ '\\t'.expandtabs(10000000000) }}", "bytes");
  expect_refused("{{ [[1]]|tojson(indent=1000000000) }}", "bytes");
  expect_refused("{{ [1]|batch(1000000000, 0)|list }}", "items");
  expect_refused("{{ [1]|slice(1000000000)|list }}", "items");
  expect_refused("{{ strftime_now('%999999999d') }}", "strftime_now");
  expect_refused("{{ strftime_now('%A' * 600) }}", "too long");
  expect_refused("{{ 2 ** 1000000000 }}", "overflow");
  expect_refused("{{ 9223372036854775807 ** 3 }}", "overflow");
}

TEST(JinjaLimits, Recursion) {
  expect_refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "levels deep");
  expect_refused("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
                 "levels deep");
  expect_refused("{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}", "levels deep");
  expect_refused("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "levels deep");
  expect_refused("{% macro m() %}" + repeat("{% if true %}", 90) + "{{ m() }}" + repeat("{% endif %}", 90) +
                     "{% endmacro %}{{ m() }}",
                 "evaluations");
}

TEST(JinjaLimits, NestedSource) {
  const std::pair<const char*, const char*> nests[] = {{"(", ")"},   {"[", "]"},  {"{1:", "}"}, {"-", ""},
                                                       {"not ", ""}, {"x[", "]"}, {"f(", ")"},  {"1 if x else ", ""}};
  for (const auto& [open, close] : nests)
    expect_refused("{{ " + repeat(open, 50000) + "1" + repeat(close, 50000) + " }}", "nested more than");
  for (const char* more :
       {"+ 1 ", "~ 1 ", "* 1 ", "|upper", ".a", "[0]", "()", "and 1 ", "or 1 ", "is odd ", "if 1 ", "if 1 else 2 "})
    expect_refused("{{ 1 " + repeat(more, 100000) + " + }}", "");
  expect_refused(repeat("{% if x %}", 50000), "blocks nested more than");
  expect_refused(repeat("{% for x in y %}", 50000), "blocks nested more than");
  expect_refused(repeat("{% set x %}", 50000), "blocks nested more than");
  expect_refused("{% for " + repeat("(", 50000), "");
  expect_refused("{% set " + repeat("a,", 50000), "");
  expect_refused(repeat("x", (1 << 20) + 1), "bytes");
  std::string conditions;
  for (int i = 0; i < 4000; ++i) conditions += fmt::format("{{% if a{} %}}{{% endif %}}", i);
  expect_refused(conditions, "variables");
}

TEST(JinjaLimits, LongChainsWork) {
  expect_rendered("{{ 0" + repeat(" + 1", 900) + " }}", "900");
  expect_rendered("{{ ''" + repeat(" ~ 1", 5000) + " }}", repeat("1", 5000));
  expect_rendered("{{ " + repeat("(", 150) + "1" + repeat(")", 150) + " }}", "1");
  expect_rendered("{{ 'a'" + repeat("|upper", 500) + " }}", "A");
  expect_rendered(repeat("{% if true %}", 90) + "x" + repeat("{% endif %}", 90), "x");
  expect_rendered("{% macro m(n) %}{{ n }}{% if n %},{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(100)|length }}",
                  "293");
}

TEST(JinjaLimits, NestedValues) {
  const std::string grow = "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}";
  for (const char* more :
       {"[ns.x]", "(ns.x,)", "{'a': ns.x}", "{(ns.x,): 1}", "ns.x.count", "ns.x|map('upper')", "cycler(ns.x)",
        "joiner(ns.x)", "[ns.x]|reverse", "[ns.x]|batch(1)", "dict(a=ns.x).items()", "[1]|map('default', ns.x)"})
    expect_refused(grow + "{% set ns.x = " + more + " %}{% endfor %}{{ 1 / 0 }}", "");
  // Chains that no depth bounds must be taken apart without recursion.
  expect_rendered(grow + "{% set ns.x = namespace(y=ns.x) %}{% endfor %}ok", "ok");
  expect_rendered(grow + "{% for y in [ns.x] %}{% set ns.x = loop %}{% endfor %}{% endfor %}ok", "ok");
  expect_rendered(grow + "{% macro m() %}{{ ns }}{% endmacro %}{% set ns.x = m %}{% endfor %}ok", "ok");
  expect_rendered("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns] %}ok", "ok");
  expect_refused("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", "nested");
  expect_refused(
      "{% set ns = namespace(l=[1]) %}{% for i in range(200) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
      "the template");
  expect_refused(
      "{% set ns = namespace(l=[1]) %}{% for i in range(200) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|tojson "
      "}}",
      "the template");
  expect_refused(
      "{% set ns = namespace(l=(1,)) %}{% for i in range(200) %}{% set ns.l = (ns.l, ns.l) %}{% endfor %}{{ {ns.l: 1} "
      "}}",
      "key");
  expect_refused(
      "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(200) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = "
      "[ns.b, ns.b] %}"
      "{% endfor %}{{ ns.a == ns.b }}",
      "the template");
  Json deep = 1;
  for (int i = 0; i < 5000; ++i) {
    Json outer = Json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  expect_refused("{{ x }}", "nested", Json{{"x", deep}});
}

TEST(JinjaLimits, TextsThatAreSlowToSearch) {
  const std::string hay(2'000'000, 'a');
  const std::string needle = std::string(500'000, 'a') + "b";
  const Json context = {{"h", hay}, {"n", needle}};
  for (const char* source :
       {"{{ n in h }}", "{{ h.find(n) }}", "{{ h.rfind(n) }}", "{{ h.count(n) }}", "{{ h.replace(n, '')|length }}",
        "{{ h.split(n)|length }}", "{{ h.rsplit(n)|length }}", "{{ h.partition(n)|length }}"}) {
    const auto parsed = ChatTemplate::parse(source);
    ASSERT_TRUE(parsed);
    EXPECT_TRUE(parsed->render_context(context, {})) << source;
  }
}

// A long conversation must fit into the budgets with plenty of room.
TEST(JinjaLimits, LongConversationsWork) {
  const auto parsed = ChatTemplate::parse(
      "{% set ns = namespace(n=0) %}{% for m in messages[::-1] %}{% if m.role == 'user' and not "
      "m.content.startswith('<') %}"
      "{% set ns.n = ns.n + 1 %}{% endif %}{% endfor %}{% for m in messages %}{% set c = m.content %}{% if '</think>' "
      "in c %}"
      "{% set c = c.split('</think>')[-1].lstrip('\\n') %}{% endif %}{{ '<|im_start|>' + m.role + '\\n' + c + "
      "'<|im_end|>\\n' }}{% endfor %}");
  ASSERT_TRUE(parsed);
  RenderInput input;
  for (int i = 0; i < 20000; ++i)
    input.messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", repeat("word ", 50)}});
  const auto result = parsed->render(input);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GT(result->text.size(), 5'000'000u);
  EXPECT_EQ(result->user.size(), 40000u);
}

}  // namespace
}  // namespace weir::text
