#!/usr/bin/env python3
"""Every check of tidy finds what it is for, and leaves alone what it is not for."""

import tempfile
import unittest
from pathlib import Path

import checks
import cpp
from tree import Tree

LONG = "".join(f"  Step({i});\n" for i in range(70))
GUARDED = "#ifndef IDEMPOTENCY_{0}_\n#define IDEMPOTENCY_{0}_\n{1}\n#endif  // IDEMPOTENCY_{0}_\n"
SCRIPT = "#!/usr/bin/env bash\nset -euo pipefail\n"

# (name, check, path, content, what a finding says; None: there is none)
CASES = [
    ("core takes nothing but std", checks.layers, "keystore/core/a.cc",
     "#include <string>\n#include \"absl/status/status.h\"\n", "absl/status/status.h"),
    ("core takes no operating system", checks.layers, "keystore/core/a.cc",
     "#include <unistd.h>\n", "unistd.h"),
    ("core takes core", checks.layers, "keystore/core/a.cc",
     "#include \"keystore/core/record.h\"\n", None),
    ("codec does not know engines", checks.layers, "keystore/codec/a.h",
     "#include \"keystore/engine/engine.h\"\n", "keystore/engine/engine.h"),
    ("the engine interface does not know bytes", checks.layers, "keystore/engine/engine.h",
     "#include \"keystore/codec/record_codec.h\"\n", "record_codec.h"),
    ("engines do", checks.layers, "keystore/engine/memory_engine.cc",
     "#include <rocksdb/db.h>\n#include \"keystore/codec/record_codec.h\"\n", None),
    ("the shell does not know engines", checks.layers, "keystore/key_store.cc",
     "#include \"keystore/engine/open_engine.h\"\n", "open_engine.h"),
    ("the shell does not know bytes", checks.layers, "keystore/lane.cc",
     "#include \"keystore/codec/key_codec.h\"\n", "key_codec.h"),
    ("the shell speaks no gRPC", checks.layers, "keystore/lane.cc",
     "#include <grpcpp/grpcpp.h>\n", "grpcpp"),
    ("the service does not know engines", checks.layers, "service/front/handlers.cc",
     "#include \"keystore/engine/open_engine.h\"\n", "open_engine.h"),
    ("the process opens one", checks.layers, "service/process/setup.cc",
     "#include \"keystore/engine/open_engine.h\"\n", None),
    ("the service does not know clients", checks.layers, "service/server.cc",
     "#include \"client/ctl/table.h\"\n", "client/ctl/table.h"),
    ("the client does not know the key store", checks.layers, "client/ctl/run.cc",
     "#include \"keystore/core/limits.h\"\n", "limits.h"),
    ("the client does not know the service's configuration", checks.layers, "client/ctl/run.cc",
     "#include \"idempotency/config/v1/config.pb.h\"\n", "config.pb.h"),
    ("tests of the key store speak no gRPC", checks.layers, "tests/keystore/core/a_test.cc",
     "#include <grpcpp/grpcpp.h>\n", "grpcpp"),
    ("a part that nobody planned", checks.layers, "protos/a.cc", "", "no layer"),
    ("a commented include is none", checks.layers, "keystore/core/a.cc",
     "// #include <unistd.h>\n", None),

    ("a long function", checks.function_length, "service/a.cc",
     "void Long() {\n" + LONG + "}\n", "Long has 72 lines"),
    ("a long method", checks.function_length, "service/a.h",
     "class A {\n public:\n  void Long() {\n" + LONG + "  }\n};\n", "Long has 72 lines"),
    ("a long constructor with members", checks.function_length, "service/a.cc",
     "A::A() : a_{1}, b_(2) {\n" + LONG + "}\n", "A::A has 72 lines"),
    ("a long test", checks.function_length, "tests/a_test.cc",
     "TEST(A, B) {\n" + LONG + "}\n", "TEST(A, B) has 72 lines"),
    ("a long lambda", checks.function_length, "service/a.cc",
     "const auto f = [](int) {\n" + LONG + "};\n", "72 lines"),
    ("a long template", checks.function_length, "service/a.cc",
     "template <typename T = int>\nvoid Long(T) {\n" + LONG[: LONG.rindex("  S")] + "}\n", "72"),
    ("a long Python function", checks.function_length, "tests/a.py",
     "def long():\n" + "    pass\n" * 70, "long has 71 lines"),
    ("exactly 70 lines", checks.function_length, "service/a.cc",
     "void F() {\n" + "  Step();\n" * 68 + "}\n", None),
    ("a long table", checks.function_length, "service/a.cc",
     "const Row kRows[] = {\n" + "  {1, 2},\n" * 90 + "};\n", None),
    ("a long namespace and class", checks.function_length, "service/a.cc",
     "namespace a {\nclass B {\n" + "  int f() { return 1; }\n" * 90 + "};\n}\n", None),
    ("a brace in a string or comment", checks.function_length, "service/a.cc",
     "void F() {\n  Say(\"{\");  // {\n  char c = '{';\n}\n" + "int x;\n" * 90, None),

    ("the wall clock", checks.banned_calls, "service/a.cc",
     "auto t = std::chrono::system_clock::now();\n", "system_clock::now"),
    ("the old clock", checks.banned_calls, "service/a.cc", "x = time(nullptr);\n", "time"),
    ("absl's clock", checks.banned_calls, "tests/a_test.cc", "x = absl::Now();\n", "absl::Now"),
    ("the monotonic clock", checks.banned_calls, "keystore/lane.cc",
     "x = steady_clock::now();\n", "steady_clock::now"),
    ("the clock's own file", checks.banned_calls, "keystore/clock.cc",
     "clock_gettime(CLOCK_BOOTTIME, &t);\n", None),
    ("chance", checks.banned_calls, "tests/a_test.cc", "std::random_device d;\n", "random_device"),
    ("old chance", checks.banned_calls, "service/a.cc", "x = rand();\n", "rand("),
    ("an operand", checks.banned_calls, "service/a.cc", "x = operand(); runtime(0);\n", None),
    ("sleeping", checks.banned_calls, "tests/a_test.cc",
     "std::this_thread::sleep_for(1ms);\n", "sleep_for"),
    ("old sleeping", checks.banned_calls, "service/a.cc", "usleep(1);\n", "usleep"),
    ("absl's sleeping", checks.banned_calls, "service/a.cc", "absl::SleepFor(x);\n", "SleepFor"),
    ("printing", checks.banned_calls, "service/a.cc", "std::cout << 1;\n", "std::cout"),
    ("old printing", checks.banned_calls, "service/a.cc", "printf(\"a\");\n", "printf"),
    ("printing into memory", checks.banned_calls, "service/a.cc", "snprintf(b, 1, \"\");\n", None),
    ("tests print", checks.banned_calls, "tests/a_test.cc", "std::cout << 1;\n", None),
    ("the environment", checks.banned_calls, "service/a.cc", "getenv(\"A\");\n", "getenv"),
    ("throwing", checks.banned_calls, "service/a.cc", "throw Error();\n", "throw"),
    ("only talking of it", checks.banned_calls, "service/a.cc",
     "// never throw, never sleep_for\nconst char* x = \"rand()\";\n", None),

    ("a disabled test", checks.words, "tests/a_test.cc", "TEST(A, DISABLED_B) {}\n", "DISABLED_B"),
    ("a skipped test", checks.words, "tests/a_test.cc", "GTEST_SKIP();\n", "GTEST_SKIP"),
    ("a test switched off in CMake", checks.words, "tests/CMakeLists.txt",
     "set_tests_properties(a PROPERTIES DISABLED TRUE)\n", "DISABLED TRUE"),
    ("left open", checks.words, "deploy/a.sh", "# TODO: later\n", "TODO"),
    ("somebody's machine", checks.words, "README.md", "see /home/me/a\n", "/home/me/"),
    ("a path in a container is not", checks.words, "README.md", "in ${x}/work/ or a/root/\n", None),

    ("a wrong guard", checks.header_guards, "service/a.h",
     GUARDED.format("SERVICE_B_H", ""), "IDEMPOTENCY_SERVICE_A_H_"),
    ("no guard", checks.header_guards, "service/a.h", "#pragma once\n", "IDEMPOTENCY_SERVICE_A_H_"),
    ("a guard", checks.header_guards, "service/a.h", GUARDED.format("SERVICE_A_H", ""), None),
    ("a public header's guard", checks.header_guards, "client/include/idempotency/client.h",
     GUARDED.format("CLIENT_H", ""), None),

    ("a stranger at the top", checks.names, "scratch/notes.txt", "", "scratch"),
    ("dotfiles at the top", checks.names, ".clang-format", "", None),
    ("an upper-case name", checks.names, "service/Main.h", "", "lower_case"),
    ("a hyphen in C++", checks.names, "service/a-b.h", "", "snake_case"),
    ("another ending", checks.names, "service/a.cpp", "", ".cc"),

    ("a source that nobody builds", checks.cmake, "service/a.cc", "", "never built"),
    ("a proto that nobody builds", checks.cmake, "protos/a.proto", "", "never built"),
    ("sources by pattern", checks.cmake, "service/CMakeLists.txt",
     "file(GLOB sources *.cc)\n", "by name"),

    ("a document that is not there", checks.documents, "service/a.cc",
     "// See MISSING.md.\n", "MISSING.md"),
    ("a link that leads nowhere", checks.documents, "README.md",
     "[here](deploy/missing.yaml)\n", "deploy/missing.yaml"),
    ("links that lead somewhere", checks.documents, "README.md",
     "[us](README.md) [them](https://example.com/x.md) [below](#there)\n", None),

    ("a field without comment", checks.protos, "protos/idempotency/v1/a.proto",
     "// A.\nmessage A {\n  int32 b = 1;\n}\n", "b has no comment"),
    ("a field that does not say", checks.protos, "protos/idempotency/v1/a.proto",
     "// A.\nmessage A {\n  // The b.\n  int32 b = 1;\n}\n", "does not say"),
    ("fields of an answer need not", checks.protos, "protos/idempotency/v1/a.proto",
     "// Output only, all of it.\nmessage A {\n  // The b.\n  int32 b = 1;\n}\n", None),
    ("the next message must", checks.protos, "protos/idempotency/v1/a.proto",
     "// Output only, all of it.\nmessage A {}\n// C.\nmessage C {\n  // B.\n  int32 b = 1;\n}\n",
     "does not say"),
    ("members of a oneof that says it", checks.protos, "protos/idempotency/v1/a.proto",
     "// A.\nmessage A {\n  // Required.\n  oneof b {\n    // C.\n    int32 c = 1;\n  }\n}\n", None),
    ("fields after such a oneof", checks.protos, "protos/idempotency/v1/a.proto",
     "// A.\nmessage A {\n  // Required.\n  oneof b {\n    // C.\n    int32 c = 1;\n  }\n"
     "  // D.\n  int32 d = 2;\n}\n", "d does not say"),
    ("a value without comment", checks.protos, "protos/idempotency/v1/a.proto",
     "// A.\nenum A {\n  A_UNSPECIFIED = 0;\n}\n", "A_UNSPECIFIED has no comment"),
    ("a method without comment", checks.protos, "protos/idempotency/v1/a.proto",
     "// A.\nservice A {\n  rpc B(C) returns (D);\n}\n", "B has no comment"),

    ("broken JSON", checks.json_files, "CMakePresets.json", "{\n  \"a\": 1,\n}\n", "not JSON"),

    ("a script that cannot be parsed", checks.shell, "deploy/a.sh", SCRIPT + "if true\n", "bash"),
    ("a script with a trap in it", checks.shell, "deploy/a.sh", SCRIPT + "rm $1\n", "shellcheck"),
    ("a script that goes on after errors", checks.shell, "deploy/a.sh",
     "#!/usr/bin/env bash\ntrue\n", "set -euo pipefail"),
    ("a script for another shell", checks.shell, "deploy/a.sh",
     "#!/bin/sh\nset -eu\n", "begins with"),
    ("a script without ending", checks.shell, ".ci/run", SCRIPT + "if true\n", "bash"),
    ("a good script", checks.shell, "deploy/a.sh", SCRIPT + "rm \"$1\"\n", None),

    ("another format", checks.formatting, "service/a.cc", "int   a ;\n", "clang-format"),
    ("the format", checks.formatting, "service/a.cc", "int a;\n", None),
]  # fmt: skip


def plant(root: str, files: dict) -> Tree:
    for path, content in files.items():
        target = Path(root, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
        if content.startswith("#!"):
            target.chmod(0o755)
    return Tree(Path(root))


class Checks(unittest.TestCase):
    def test_every_planted_violation_is_found_and_nothing_else(self):
        for name, check, path, content, expected in CASES:
            with self.subTest(name), tempfile.TemporaryDirectory() as root:
                found = list(check(plant(root, {path: content})))
                if expected is None:
                    self.assertEqual(found, [], content)
                else:
                    self.assertTrue(found, content)
                    self.assertIn(expected, " | ".join(f.message for f in found), content)
                    self.assertLessEqual({f.path for f in found}, {path})

    def test_every_check_has_a_planted_violation(self):
        planted = {check for _, check, _, _, expected in CASES if expected is not None}
        self.assertEqual(planted, set(checks.ALL))

    def test_a_script_that_cannot_be_run(self):
        with tempfile.TemporaryDirectory() as root:
            tree = plant(root, {"deploy/a.sh": SCRIPT})
            Path(root, "deploy/a.sh").chmod(0o644)
            self.assertIn("chmod", " ".join(f.message for f in checks.shell(tree)))

    def test_sources_that_are_built(self):
        with tempfile.TemporaryDirectory() as root:
            tree = plant(root, {
                "service/CMakeLists.txt": "include(config.cmake)\nadd_library(s a.cc front/b.cc)\n",
                "service/config.cmake": "target_sources(s PRIVATE c.cc)  # not d.cc\n",
                "service/a.cc": "", "service/front/b.cc": "", "service/c.cc": "",
                "service/d.cc": "", "service/aa.cc": "",
            })  # fmt: skip
            self.assertEqual(
                [f.path for f in checks.cmake(tree)], ["service/aa.cc", "service/d.cc"]
            )

    def test_what_builds_leave_behind_is_not_looked_at(self):
        with tempfile.TemporaryDirectory() as root:
            tree = plant(root, {"build/asan/Gen.cpp": "", "var/x/y.txt": "", ".git/HEAD": ""})
            self.assertEqual(tree.files, [])


class Cpp(unittest.TestCase):
    def test_literals_and_comments_are_blanked_in_place(self):
        text = 'a("b\\"{", \'{\', 1\'000, R"x({"\n)x");  // {\n/* {\n */ c'
        code = cpp.code_of(text)
        self.assertEqual(len(code), len(text))
        self.assertEqual(code.count("\n"), text.count("\n"))
        self.assertNotIn("{", code)
        self.assertIn("1_000", code)
        self.assertTrue(code.endswith(" c"))

    def test_functions_and_their_lines(self):
        text = """
namespace n {
struct S {
  S() : a{1}, b{2} { a = 3; }
  bool operator==(const S&) const = default;
  bool operator<(const S& o) const {
    return a < o.a;
  }
  int a = {4};
};
enum class E { kA = 1 };
const std::vector<int> kTable = {1, 2};
template <typename T, typename = int>
T Make(T t = {}) {
  struct Local { int x() { return 1; } };
  auto f = [] { return 2; };
  return t;
}
auto kLambda = [](int x) { return x; };
}  // namespace n
"""
        found = [(f.name, f.line, f.lines) for f in cpp.functions_of(text)]
        self.assertEqual(
            found,
            [("S", 4, 1), ("operator<", 6, 3), ("Make", 13, 6), ("lambda", 19, 1)],
        )


if __name__ == "__main__":
    unittest.main()
