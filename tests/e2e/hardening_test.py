#!/usr/bin/env python3
"""What deploy/cmake/hardening.cmake promises, looked for in the release binaries.

The binaries are $IDEMPOTENCYD and $IDEMPOTENCYCTL; readelf, from binutils, reads them.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

# The compiler of the release preset, whose start files are linked in.
COMPILER = "g++"
ENDBR64 = bytes.fromhex("f30f1efa")


def binary(variable):
    path = os.environ.get(variable, "")
    if not os.access(path, os.X_OK):
        sys.exit(f"{variable}={path!r} is no program: build idempotencyd and idempotencyctl first")
    return path


def readelf(path, *options):
    done = subprocess.run(
        ["readelf", "-W", *options, str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout


def faults(path):
    """What is missing, as words; empty for a hardened binary."""
    found = []
    dynamic = readelf(path, "-d")
    segments = readelf(path, "-l")
    symbols = {
        line.split()[-1] if "@" not in line else line.split("@")[0].split()[-1]
        for line in readelf(path, "--dyn-syms").splitlines()
        if "UND" in line
    }
    if "Type:                              DYN" not in readelf(path, "-h") or "PIE" not in dynamic:
        found.append("is not position independent")
    if "GNU_RELRO" not in segments or not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW", dynamic):
        found.append("does not protect its relocations (RELRO, BIND_NOW)")
    stack = re.search(r"GNU_STACK.*\s([RWE ]{2,4})\s+0x", segments)
    if stack is None or "E" in stack[1]:
        found.append("has an executable stack")
    if re.search(r"LOAD.*\sRWE\s", segments):
        found.append("has a segment that is writable and executable")
    if re.search(r"\((RPATH|RUNPATH)\)", dynamic):
        found.append("looks for libraries where it was built (RPATH)")
    if "(TEXTREL)" in dynamic:
        found.append("has text relocations")
    if "__stack_chk_fail" not in symbols:
        found.append("has no stack protector")
    if not any(name.endswith("_chk") and name != "__stack_chk_fail" for name in symbols):
        found.append("has no checked copies (_FORTIFY_SOURCE)")
    return found


def begins_with_mark(path, function):
    """Whether the machine code of `function` begins where an indirect call may go."""
    line = next(
        line.split()
        for line in readelf(path, "-s").splitlines()
        if line.split()[-1:] == [function] and " FUNC " in line
    )
    address = int(line[1], 16)
    for segment in readelf(path, "-l").splitlines():
        words = segment.split()
        if words[:1] != ["LOAD"]:
            continue
        offset, start, _, size = (int(word, 16) for word in words[1:5])
        if start <= address < start + size:
            with open(path, "rb") as file:
                file.seek(offset + address - start)
                return file.read(len(ENDBR64)) == ENDBR64
    raise AssertionError(f"{function} is in no segment of {path}")


def marks_of_start_files():
    """The features that the compiler's own start files allow a program to say it has."""
    features = None
    for name in ("Scrt1.o", "crti.o", "crtbeginS.o", "crtendS.o", "crtn.o"):
        path = subprocess.run(
            [COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        said = {word for word in ("IBT", "SHSTK") if word in readelf(path, "-n")}
        features = said if features is None else features & said
    return features


class Hardening(unittest.TestCase):
    def check(self, path, copies=True):
        # A program without a copy whose bounds are known only when it runs needs no checked one.
        self.assertEqual([fault for fault in faults(path) if copies or "copies" not in fault], [])
        if os.uname().machine != "x86_64":
            return
        self.assertTrue(begins_with_mark(path, "main"), "main is not marked for indirect calls")
        notes = readelf(path, "-n")
        for feature in marks_of_start_files():
            self.assertIn(feature, notes)

    def test_server(self):
        self.check(binary("IDEMPOTENCYD"))

    def test_tool(self):
        self.check(binary("IDEMPOTENCYCTL"), copies=False)

    def test_names_no_path_of_the_machine_that_built_it(self):
        source = os.environ.get("IDEMPOTENCY_SOURCE_DIR", "").encode()
        self.assertTrue(source)
        for variable in ("IDEMPOTENCYD", "IDEMPOTENCYCTL"):
            content = pathlib.Path(binary(variable)).read_bytes()
            # Code and data as they are loaded; debug sections are stripped for release.
            with tempfile.TemporaryDirectory() as directory:
                stripped = pathlib.Path(directory, "stripped")
                subprocess.run(["strip", "-o", stripped, binary(variable)], check=True)
                self.assertLess(stripped.stat().st_size, len(content))
                self.assertNotIn(source, stripped.read_bytes(), variable)


class UnhardenedPrograms(unittest.TestCase):
    """Each check finds what it is for."""

    PROGRAM = """
        #include <cstdio>
        #include <cstring>
        int main(int, char** arguments) {
          char copy[64];
          std::strcpy(copy, arguments[0]);
          std::puts(copy);
        }
    """
    HARDENED = [
        "-O2",
        "-fPIE",
        "-pie",
        "-fstack-protector-strong",
        "-U_FORTIFY_SOURCE",
        "-D_FORTIFY_SOURCE=3",
        "-fcf-protection=full",
        "-Wl,-z,relro,-z,now,-z,noexecstack",
    ]

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        if shutil.which(COMPILER) is None:
            raise RuntimeError(f"{COMPILER} is missing: deploy/install_deps.sh build")

    def build(self, *options):
        source = pathlib.Path(self.directory.name, "program.cc")
        source.write_text(self.PROGRAM)
        program = source.with_suffix("")
        subprocess.run(
            [COMPILER, *self.HARDENED, *options, source, "-o", program],
            check=True,
            capture_output=True,
        )
        return program

    def test_hardened(self):
        program = self.build()
        self.assertEqual(faults(program), [])
        if os.uname().machine == "x86_64":
            self.assertTrue(begins_with_mark(program, "main"))

    def test_each_left_out(self):
        rows = [
            (["-no-pie", "-fno-pie"], "is not position independent"),
            (["-Wl,-z,lazy"], "does not protect its relocations (RELRO, BIND_NOW)"),
            (["-Wl,-z,norelro"], "does not protect its relocations (RELRO, BIND_NOW)"),
            (["-Wl,-z,execstack"], "has an executable stack"),
            (["-Wl,-rpath,/nowhere"], "looks for libraries where it was built (RPATH)"),
            (["-fno-stack-protector"], "has no stack protector"),
            (["-U_FORTIFY_SOURCE"], "has no checked copies (_FORTIFY_SOURCE)"),
        ]
        for options, fault in rows:
            with self.subTest(options=options):
                self.assertIn(fault, faults(self.build(*options)))

    def test_not_marked(self):
        if os.uname().machine == "x86_64":
            self.assertFalse(begins_with_mark(self.build("-fcf-protection=none"), "main"))


if __name__ == "__main__":
    unittest.main()
