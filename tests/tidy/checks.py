"""One function a check: it yields what is wrong with a tree, and nothing where all is well."""

import ast
import json
import re
import shutil
import subprocess
from typing import Iterator

import cpp
import proto
import rules
from tree import File, Finding, Tree

# This folder names what it forbids.
OWN_FOLDER = "tests/tidy/"


def layers(tree: Tree) -> Iterator[Finding]:
    """Includes follow the arrows between the parts."""
    for file in tree.cpp():
        fitting = [layer for layer in rules.LAYERS if file.path.startswith(layer[0])]
        if not fitting:
            yield Finding(file.path, 1, "belongs to no layer that tests/tidy/rules.py knows")
            continue
        prefix, allowed = max(fitting, key=lambda layer: len(layer[0]))
        for include in cpp.includes_of(file.text):
            if not _may_include(file, include.path, allowed):
                message = f"{prefix}... must not include {include.path} (rules.py: LAYERS)"
                yield Finding(file.path, include.line, message)


def _may_include(file: File, path: str, allowed: list) -> bool:
    if rules.STANDARD.fullmatch(path) or any(re.fullmatch(rule, path) for rule in allowed):
        return True
    opens = rules.ENGINE_OPENERS.fullmatch(file.path) is not None
    return opens and rules.ENGINE_HEADERS.fullmatch(path) is not None


def function_length(tree: Tree) -> Iterator[Finding]:
    """A function fits one screen."""
    for file in tree.cpp():
        for function in cpp.functions_of(file.text):
            yield from _too_long(file, function.name, function.line, function.lines)
    for file in tree.ending(".py"):
        for node in ast.walk(ast.parse(file.text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = node.end_lineno - node.lineno + 1
                yield from _too_long(file, node.name, node.lineno, lines)


def _too_long(file: File, name: str, line: int, lines: int) -> Iterator[Finding]:
    if lines > rules.FUNCTION_LINES_MAX:
        message = f"{name} has {lines} lines; split it at {rules.FUNCTION_LINES_MAX}"
        yield Finding(file.path, line, message)


def banned_calls(tree: Tree) -> Iterator[Finding]:
    """Time, randomness, output and the environment come in as arguments."""
    for file in tree.cpp():
        code = cpp.code_of(file.text)
        for what, pattern, users, instead in rules.BANNED_CALLS:
            if file.path in users or (file.path.startswith("tests/") and what in rules.TESTS_MAY):
                continue
            for match in re.finditer(pattern, code):
                message = f"{match.group().strip()} ({what}): {instead}"
                yield Finding(file.path, cpp.line_of(code, match.start()), message)


def words(tree: Tree) -> Iterator[Finding]:
    """Nothing is left open, switched off or bound to somebody's machine."""
    for file in tree.texts():
        if file.path.startswith(OWN_FOLDER):
            continue
        for pattern, message in (
            (rules.DISABLED_TEST, "a test that does not run: mend it or take it out"),
            (rules.LEFT_OPEN, "left open: do it, or file an issue"),
            (rules.MACHINE_PATHS, "a path of one machine"),
        ):
            for match in pattern.finditer(file.text):
                line = cpp.line_of(file.text, match.start())
                yield Finding(file.path, line, f"{match.group().strip()}: {message}")


def header_guards(tree: Tree) -> Iterator[Finding]:
    """Guards say the path of their header."""
    for file in tree.ending(".h"):
        path = file.path.removeprefix("client/include/idempotency/")
        guard = "IDEMPOTENCY_" + re.sub(r"\W", "_", path).upper() + "_"
        shape = rf"^#ifndef {guard}\n#define {guard}\n.*^#endif  // {guard}\n\Z"
        if not re.search(shape, file.text, re.MULTILINE | re.DOTALL):
            yield Finding(file.path, 1, f"the header guard must be {guard}")


def names(tree: Tree) -> Iterator[Finding]:
    """Files are lower case, C++ is .h and .cc, and the top level holds what was agreed."""
    for file in tree.files:
        top = file.path.split("/", 1)[0]
        if not top.startswith(".") and top not in rules.TOP_LEVEL:
            yield Finding(file.path, 1, f"{top} is not among the agreed top-level entries")
        if file.name in rules.OTHER_FILE_NAMES:
            continue
        if file.name.endswith((".cpp", ".cxx", ".hpp", ".hh", ".hxx")):
            yield Finding(file.path, 1, "C++ files end in .h and .cc")
        elif not rules.FILE_NAME.fullmatch(file.name):
            yield Finding(file.path, 1, "file names are lower_case")
        elif file.is_cpp and "-" in file.name:
            yield Finding(file.path, 1, "C++ file names are snake_case")


def cmake(tree: Tree) -> Iterator[Finding]:
    """Every source is listed by hand in the CMakeLists.txt (or a .cmake file) above it."""
    lists = {}
    for file in tree.files:
        if file.name == "CMakeLists.txt" or file.name.endswith(".cmake"):
            text = re.sub(r"#[^\n]*", "", file.text)
            lists[file.directory] = lists.get(file.directory, "") + text
            for match in re.finditer(r"\bGLOB(?:_RECURSE)?\b", text):
                yield Finding(file.path, cpp.line_of(text, match.start()), "list sources by name")
    for file in tree.ending(".cc", ".proto"):
        if not any(_lists(lists, directory, file) for directory in _above(file.directory)):
            yield Finding(file.path, 1, "is in no CMakeLists.txt: it is never built")


def _above(directory: str) -> Iterator[str]:
    while directory:
        yield directory
        directory = directory.rpartition("/")[0]
    yield ""


def _lists(lists: dict, directory: str, file: File) -> bool:
    relative = file.path[len(directory) + 1 :] if directory else file.path
    return re.search(rf"(?<![\w./-]){re.escape(relative)}(?![\w.-])", lists.get(directory, ""))


def documents(tree: Tree) -> Iterator[Finding]:
    """A document that is named exists, and so does what a document links to."""
    for file in tree.texts():
        if file.path.startswith(OWN_FOLDER):
            continue
        # What a link is called is not checked, where it leads to is (below).
        text = re.sub(r"\[[^\]\n]*\]\([^)\n]*\)", " ", file.text)
        for match in re.finditer(r"(?<![\w:/.-])[\w./-]*\w\.md\b", text):
            known = any(path.endswith("/" + match.group()) for path in tree.paths)
            if not known and not _found(tree, file, match.group()):
                line = cpp.line_of(text, match.start())
                yield Finding(file.path, line, f"{match.group()} does not exist")
    for file in tree.ending(".md"):
        for match in re.finditer(r"\]\(([^)#\s]+)[^)]*\)", file.text):
            target = match.group(1)
            if not re.match(r"[a-z]+:", target) and not _found(tree, file, target):
                line = cpp.line_of(file.text, match.start())
                yield Finding(file.path, line, f"links to {target}, which does not exist")


def _found(tree: Tree, file: File, target: str) -> bool:
    return any((tree.root / base / target).exists() for base in (file.directory, "."))


def protos(tree: Tree) -> Iterator[Finding]:
    """Everything in a proto says what it is; fields of the API also whether they are required."""
    for file in tree.ending(".proto"):
        if file.path.startswith("protos/idempotency/"):
            strict = file.path.startswith("protos/idempotency/v1/")
            for line, message in proto.uncommented(file.text, strict):
                yield Finding(file.path, line, message)


def json_files(tree: Tree) -> Iterator[Finding]:
    """What calls itself JSON can be read as such."""
    for file in tree.ending(".json"):
        try:
            json.loads(file.text)
        except ValueError as error:
            yield Finding(file.path, getattr(error, "lineno", 1), f"is not JSON: {error}")


def _is_shell(file: File) -> bool:
    first = (file.text or "").split("\n", 1)[0]
    return file.name.endswith(".sh") or re.match(r"#!.*\b(?:ba|da)?sh\b", first) is not None


def shell(tree: Tree) -> Iterator[Finding]:
    """Scripts can be run, fail on errors, and pass bash -n and shellcheck."""
    scripts = [file for file in tree.texts() if _is_shell(file)]
    for file in scripts:
        if not file.text.startswith("#!/usr/bin/env bash\n"):
            yield Finding(file.path, 1, "begins with #!/usr/bin/env bash")
        if not re.search(r"^set -[eu]*o pipefail$|^set -\w*u\w*o pipefail$", file.text, re.M):
            yield Finding(file.path, 1, "says set -euo pipefail (or why not, with -uo)")
        if not file.is_executable:
            yield Finding(file.path, 1, "is not executable (chmod +x)")
    for command in (["bash", "-n"], ["shellcheck", "--format=gcc"]):
        yield from _tool(tree, command, [file.path for file in scripts])


def formatting(tree: Tree) -> Iterator[Finding]:
    """C++ is formatted by clang-format 14 with the .clang-format of the tree."""
    name = "clang-format-14" if shutil.which("clang-format-14") else "clang-format"
    command = [name, "--dry-run", "-Werror", "--ferror-limit=1"]
    yield from _tool(tree, command, [file.path for file in tree.cpp()])


def _tool(tree: Tree, command: list, paths: list) -> Iterator[Finding]:
    """Runs a tool over files; each of its lines "path:line:...: message" is a finding."""
    if shutil.which(command[0]) is None:
        yield Finding(".", 1, f"{command[0]} is missing: run deploy/install_deps.sh test")
        return
    one_at_a_time = command[0] == "bash"  # it takes one script
    for batch in [[path] for path in paths] if one_at_a_time else [paths]:
        if not batch:
            continue
        run = subprocess.run(
            [*command, *batch], cwd=tree.root, capture_output=True, text=True, check=False
        )
        if run.returncode == 0:
            continue
        lines = (run.stdout + run.stderr).splitlines()
        found = [re.match(r"([^:\s]+): ?(?:line )?(\d+):(.*)", line) for line in lines]
        if not any(found):
            yield Finding(".", 1, f"{command[0]} failed: {' '.join(lines)[:500]}")
        for match in filter(None, found):
            yield Finding(match.group(1), int(match.group(2)), f"{command[0]}:{match.group(3)}")


HOUSE = (
    layers,
    function_length,
    banned_calls,
    words,
    header_guards,
    names,
    cmake,
    documents,
    protos,
    json_files,
)
ALL = (*HOUSE, shell, formatting)
