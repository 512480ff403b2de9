#!/usr/bin/env python3
"""Random templates, and Jinja2's text against that of `weir template render`.

  pip install Jinja2==3.1.6
  tools/fuzz_templates.py --weir build/release/weir [--seed N] [--templates N]

Both must give the same text, or both an error. Prints what differs; status 1 if anything did.
"""
import argparse
import json
import random
import subprocess
import sys
import warnings

from gen_template_tests import NOW, environment, outcome

CONTEXT = {
    "messages": [{"role": "system", "content": "Be <brief> & \"kind\"."}, {"role": "user", "content": " Hi there\nYou "},
                 {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"x": [1, 2.5, None, True]}}}]},
                 {"role": "user", "content": [{"type": "text", "text": "é世😀"}, {"type": "image"}]}],
    "d": {"a": 1, "items": [3, 1, 2], "k": {"z": "q", "b": None}, "Key": "v"}, "l": [3, 1, 2, 1], "w": ["b", "A", "c", "a"], "s": "Hello, World", "t": "  padded\ttext ",
    "n": 7, "f": 2.5, "z": 0, "e": "", "no": None, "yes": True, "bad": False, "m": "a-b-c", "u": "naïve ǅ ß ŉ",
}
NAMES = list(CONTEXT) + ["missing", "x", "i"]
STRINGS = ["'a'", "''", "' '", "'b-c'", "\"it's\"", "'\\n'", "'%s'", "'{}'", "'é'", "'Role'", "'content'", "'-'", "'A b'"]
NUMBERS = ["0", "1", "2", "-1", "3", "10", "1.5", "0.1", "1e3"]
FILTERS = """abs attr('a') attribute batch(2) batch(2,'x') capitalize center(12) center count d('x') default('x') default('x',true) dictsort dictsort(true) dictsort(false,'value')
 dictsort(reverse=true) e escape filesizeformat filesizeformat(true) first float float(1.5) forceescape format(1) groupby('role') indent indent(2) indent(2,true)
 indent('>') indent(first=true,blank=true) int int(5) int(0,16) items items|list join join(', ') join('-',attribute='role') last length list lower map('upper') map('length') map(attribute='role')
 map(attribute='role',default='-') map('default','x') max min max(attribute='n') pprint random reject('odd') reject rejectattr('role','equalto','user') rejectattr('role') replace('a','b')
 replace('l','L',1) reverse round round(1) round(0,'floor') round(1,'ceil') safe select select('odd') select('string') selectattr('role') selectattr('role','equalto','user')
 selectattr('role','in',['user','system']) selectattr('content','defined') slice(2) slice(3,'x') sort sort(reverse=true) sort(attribute='role') sort(true,true) string striptags sum sum(start=1)
 sum(attribute='n') title tojson tojson(indent=2) tojson(sort_keys=true) tojson(ensure_ascii=true) tojson(separators=(',',':')) trim trim('a ') truncate(5) truncate(5,true) truncate(8,true,'..',0)
 truncate(9,leeway=2) unique unique(true) unique(attribute='role') upper urlencode wordcount wordwrap(5) wordwrap(4,false) xmlattr xmlattr(false)""".split()
TESTS = """boolean callable defined divisibleby(2) divisibleby(3) even odd eq(1) equalto('a') escaped false filter float ge(1) gt(1) in([1,2]) in('abc') integer iterable le(2) lower lt(2)
 mapping ne(1) none number sameas(true) sameas(none) sequence string test true undefined upper""".split()
METHODS = """upper() lower() strip() lstrip() rstrip() strip('a') title() capitalize() swapcase() split() split(',') split('l',1) rsplit(' ',1) splitlines() splitlines(true) startswith('H') endswith('d')
 startswith(('a','H')) find('l') rfind('l') index('l') count('l') replace('l','L') replace('l','L',1) join(['a','b']) join(w) isdigit() isalpha() isupper() islower() isspace() isalnum() istitle() isnumeric()
 isdecimal() isidentifier() isascii() isprintable() zfill(8) ljust(9,'.') rjust(9) center(9) partition(',') rpartition('l') removeprefix('He') removesuffix('ld') casefold() expandtabs() expandtabs(4) encode()
 format(1,2) format_map({}) translate({}) items() keys() values() get('a') get('q') get('q','w') copy() index(1) count(1) append(1) pop() update({}) __len__() as_integer_ratio() is_integer() bit_length()""".split()


class Maker:
    def __init__(self, rng):
        self.rng, self.one = rng, rng.choice

    def atom(self, depth):
        kind = self.rng.randrange(12)
        if kind < 5:
            return self.one(NAMES)
        if kind == 5:
            return self.one(STRINGS)
        if kind == 6:
            return self.one(NUMBERS + ["true", "false", "none"])
        if depth <= 0:
            return self.one(["s", "l", "n", "messages", "d"])
        if kind == 7:
            return "[" + ", ".join(self.expr(depth - 1) for _ in range(self.rng.randint(0, 3))) + "]"
        if kind == 8:
            return "{" + ", ".join(self.one(STRINGS + NUMBERS) + ": " + self.expr(depth - 1) for _ in range(self.rng.randint(0, 2))) + "}"
        if kind == 9:
            return "(" + self.expr(depth - 1) + self.one([",", "", ", " + self.expr(depth - 1)]) + ")"
        if kind == 10:
            return self.one(["range(3)", "range(1, %s)" % self.one(NUMBERS), "dict(a=1, b='x')", "dict(d, c=3)", "namespace(a=1).a", "cycler('a','b').next()", "joiner(', ')()",
                             "strftime_now('%d %b %Y %H:%M')", "lipsum", "loop.index", "loop.last", "loop", "varargs", "caller()"])
        return "(" + self.expr(depth - 1) + ")"

    def postfix(self, base, depth):
        kind = self.rng.randrange(10)
        if kind < 4:
            return base + "|" + self.one(FILTERS)
        if kind < 6:
            return base + "." + self.one(METHODS)
        if kind == 6:
            return base + "." + self.one(["a", "role", "items", "k", "Key", "content", "first", "real", "0", "1"])
        if kind == 7:
            return base + "[" + self.one(["0", "-1", "5", "'a'", "'role'", "1:", ":-1", "::2", "::-1", "1:2", ":1", "-2:", self.expr(depth - 1)]) + "]"
        return base

    def expr(self, depth):
        base = self.atom(depth)
        for _ in range(self.rng.randint(0, 2)):
            base = self.postfix(base, depth)
        if depth <= 0:
            return base
        kind = self.rng.randrange(14)
        if kind < 4:
            return base + " " + self.one(["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">=", "and", "or", "in", "not in", "~", "+"]) + " " + self.expr(depth - 1)
        if kind == 4:
            return base + self.one([" is ", " is not "]) + self.one(TESTS)
        if kind == 5:
            return self.one(["not ", "-", "+", "not "]) + base
        if kind == 6:
            return base + " if " + self.expr(depth - 1) + self.one(["", " else " + self.expr(depth - 1)])
        return base

    def tag(self, inside):
        return self.one(["{%", "{%-", "{%", "{%+"]) + " " + inside + " " + self.one(["%}", "-%}", "%}", "+%}"])

    def text(self):
        return self.one(["", " ", "\n", "x", "  \n  ", "<|im_start|>", "a b\n", "\n\n"])

    def out(self, depth):
        return self.one(["{{", "{{-", "{{"]) + " " + self.expr(depth) + " " + self.one(["}}", "-}}", "}}"])

    def body(self, depth, in_loop=False):
        return "".join(self.text() + self.statement(depth, in_loop) for _ in range(self.rng.randint(1, 3))) + self.text()

    def statement(self, depth, in_loop):
        kind = self.rng.randrange(20) if depth > 0 else 0
        tag, body = self.tag, lambda loop=in_loop: self.body(depth - 1, loop)
        if kind < 8:
            return self.out(2)
        if kind < 10:
            return tag("if " + self.expr(1)) + body() + self.one(["", tag("elif " + self.expr(1)) + body(), tag("else") + body()]) + tag("endif")
        if kind < 13:
            target = self.one(["x", "i", "x, i", "m"])
            source = self.one(["messages", "l", "w", "d.items()", "d|dictsort", "range(4)", "s", "d", "[]", "messages[1:]", self.expr(1)])
            return (tag("for %s in %s%s%s" % (target, source, self.one(["", "", " if " + self.expr(1)]), self.one(["", "", " recursive"]))) + body(True) +
                    self.one(["", tag("else") + body()]) + tag("endfor"))
        if kind < 15:
            return tag("set %s = %s" % (self.one(["x", "i", "s", "ns.a", "x, i"]), self.expr(2)))
        if kind == 15:
            return tag("set x" + self.one(["", " | upper", " | trim"])) + body() + tag("endset")
        if kind == 16:
            name = self.one(["f", "g"])
            return (tag("macro %s(%s)" % (name + "_", self.one(["", "x", "x, i=2", "x='d', i=x"]))) + body(False) + tag("endmacro") +
                    self.one(["{{ %s_(%s) }}" % (name, self.one(["", "1", "s, i=n", "1, 2, 3", "q=1"])), tag("call %s_(1)" % name) + body() + tag("endcall"),
                              tag("call(x) %s_()" % name) + body() + tag("endcall")]))
        if kind == 17:
            return tag("filter " + self.one(["upper", "trim", "replace('a','b')", "indent(2)", "length"])) + body() + tag("endfilter")
        if kind == 18:
            return self.one([tag("generation") + body() + tag("endgeneration"), tag("with x = " + self.expr(1)) + body() + tag("endwith"), "{# c " + self.text() + "#}",
                             tag("raw") + "{{ x }}" + tag("endraw"), tag("set ns = namespace(a=%s)" % self.expr(1)) + "{{ ns.a }}", tag("autoescape true") + body() + tag("endautoescape")])
        if in_loop:
            return self.one([tag("break"), tag("continue"), tag("if loop.index > 1") + tag("break") + tag("endif"), "{{ loop.index0 }}/{{ loop.length }}", "{{ loop.previtem }}{{ loop.nextitem }}",
                             "{{ loop.cycle('a','b') }}", "{{ loop.changed(x) }}", "{{ loop.depth }}", "{{ loop(x) }}"])
        return self.out(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--templates", type=int, default=5000)
    parser.add_argument("--show", type=int, default=20)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = random.Random(args.seed)
    cases = []
    while len(cases) < args.templates:
        maker = Maker(rng)
        source = maker.out(2) if rng.random() < 0.6 else maker.body(rng.randint(1, 3))  # short ones mostly give a text
        if "random" in source or "lipsum" in source:
            continue
        env = environment(NOW)
        try:
            result = outcome(lambda: env.from_string(source).render(**json.loads(json.dumps(CONTEXT))))
        except RecursionError:
            continue
        cases.append((source, result))
    requests = "".join(json.dumps({"template_text": s, "context": CONTEXT, "now": NOW}) + "\n" for s, _ in cases)
    run = subprocess.run([args.weir, "template", "render", "--json"], input=requests.encode(), capture_output=True)
    answers = [json.loads(line) for line in run.stdout.decode().rstrip("\n").split("\n")]
    bad = texts = 0
    for (source, result), answer in zip(cases, answers):
        texts += "expected" in result
        wanted = result.get("expected")
        if wanted is not None and ("0x" in wanted and " at 0x" in wanted):
            continue  # the address of an object
        if ("error" in result) == ("error" in answer) and wanted == answer.get("text"):
            continue
        bad += 1
        if bad <= args.show:
            print("%s\n  want %s\n  got  %s" % (ascii(source), ascii(wanted if wanted is not None else result), ascii(answer.get("text", answer))))
    print("%d templates (%d give a text), %d answers, %d differ" % (len(cases), texts, len(answers), bad))
    return bad > 0 or len(answers) != len(cases)


sys.exit(main())
