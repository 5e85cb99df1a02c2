#!/usr/bin/env python3
"""deploy/sbom.py on the release binaries: a valid SPDX 2.3 document that misses no library."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).parents[2]
SCRIPT = SOURCE / "deploy/sbom.py"

# What SPDX 2.3 asks of every document, package and relationship.
DOCUMENT_FIELDS = {
    "spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo",
}  # fmt: skip
PACKAGE_FIELDS = {"SPDXID", "name", "downloadLocation", "filesAnalyzed"}
RELATIONSHIPS = {"DESCRIBES", "DYNAMIC_LINK", "DEPENDS_ON", "STATIC_LINK"}

# The licences of SPDX's list that Debian's packages of ours may have.
LICENCES = {
    "Apache-2.0", "Artistic-1.0-Perl", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0",
    "GPL-1.0-or-later", "GPL-2.0-only", "GPL-2.0-or-later", "GPL-3.0-or-later", "MIT", "X11",
    "Zlib",
}  # fmt: skip


def binary(variable):
    path = os.environ.get(variable, "")
    if not os.access(path, os.X_OK):
        sys.exit(f"{variable}={path!r} is no program: build idempotencyd and idempotencyctl first")
    return path


def run(*arguments, date="1700000000"):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        env={**os.environ, "SOURCE_DATE_EPOCH": date},
        capture_output=True,
        text=True,
        check=False,
    )


class Document(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.binaries = [binary("IDEMPOTENCYD"), binary("IDEMPOTENCYCTL")]
        done = run(*cls.binaries)
        assert done.returncode == 0, done.stderr
        cls.text = done.stdout
        cls.document = json.loads(cls.text)
        cls.packages = {package["SPDXID"]: package for package in cls.document["packages"]}

    def related(self, name, kinds):
        us = next(key for key, package in self.packages.items() if package["name"] == name)
        return {
            self.packages[link["relatedSpdxElement"]]["name"]
            for link in self.document["relationships"]
            if link["spdxElementId"] == us and link["relationshipType"] in kinds
        }

    def test_has_what_every_document_has(self):
        self.assertLessEqual(DOCUMENT_FIELDS, set(self.document))
        self.assertEqual(self.document["spdxVersion"], "SPDX-2.3")
        self.assertEqual(self.document["dataLicense"], "CC0-1.0")
        self.assertEqual(self.document["SPDXID"], "SPDXRef-DOCUMENT")
        self.assertRegex(self.document["documentNamespace"], r"^https://[^#]+$")
        made = self.document["creationInfo"]
        self.assertEqual(made["created"], "2023-11-14T22:13:20Z")
        self.assertTrue(made["creators"])
        for creator in made["creators"]:
            self.assertRegex(creator, "^(Tool|Organization|Person): ")

    def test_has_packages_with_what_they_must_say(self):
        self.assertEqual(len(self.packages), len(self.document["packages"]), "an id is used twice")
        for package in self.document["packages"]:
            self.assertLessEqual(PACKAGE_FIELDS, set(package), package["name"])
            self.assertRegex(package["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertFalse(package["filesAnalyzed"])
            self.assertRegex(
                package.get("supplier", "NOASSERTION"), "^(Organization: |Person: |NOASSERTION)"
            )
            for checksum in package.get("checksums", []):
                self.assertEqual(checksum["algorithm"], "SHA256")
                self.assertRegex(checksum["checksumValue"], "^[0-9a-f]{64}$")
            for reference in package.get("externalRefs", []):
                self.assertEqual(reference["referenceCategory"], "PACKAGE-MANAGER")
                self.assertRegex(reference["referenceLocator"], r"^pkg:deb/debian/\S+@\S+\?arch=")

    def test_relates_what_is_there(self):
        known = set(self.packages) | {"SPDXRef-DOCUMENT"}
        for link in self.document["relationships"]:
            self.assertIn(link["relationshipType"], RELATIONSHIPS)
            self.assertIn(link["spdxElementId"], known)
            self.assertIn(link["relatedSpdxElement"], known)
        described = [
            link for link in self.document["relationships"] if link["relationshipType"] == "DESCRIBES"
        ]
        self.assertEqual(len(described), 2)

    def test_names_every_library_that_a_binary_needs(self):
        for path in self.binaries:
            name = pathlib.Path(path).name
            dynamic = subprocess.run(
                ["readelf", "-dW", path], capture_output=True, text=True, check=True
            ).stdout
            asked_for = set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))
            self.assertGreater(len(asked_for), 5)
            self.assertEqual(self.related(name, {"DYNAMIC_LINK"}), asked_for)
            # What the loader says of itself, in its own words.
            traced = subprocess.run(
                [path],
                env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            loaded = {
                pathlib.Path(line.split()[0]).name
                for line in traced.splitlines()
                if "vdso" not in line
            }
            self.assertEqual(self.related(name, {"DYNAMIC_LINK", "DEPENDS_ON"}), loaded)

    def test_knows_version_and_source_of_each(self):
        for package in self.document["packages"]:
            self.assertNotEqual(package["versionInfo"], "NOASSERTION", package["name"])
            if package["name"] not in ("idempotencyd", "idempotencyctl"):
                self.assertEqual(package["supplier"], "Organization: Debian", package["name"])
                self.assertIn("built from source", package["sourceInfo"])

    def test_has_licences_that_spdx_or_the_document_know(self):
        extracted = {info["licenseId"] for info in self.document["hasExtractedLicensingInfos"]}
        for info in self.document["hasExtractedLicensingInfos"]:
            self.assertRegex(info["licenseId"], r"^LicenseRef-[A-Za-z0-9.-]+$")
            self.assertTrue(info["extractedText"])
        used = set()
        for package in self.document["packages"]:
            for field in ("licenseDeclared", "licenseConcluded"):
                if package[field] != "NOASSERTION":
                    used |= set(re.split(r" (?:AND|OR) ", package[field]))
        self.assertLessEqual(used, LICENCES | extracted)
        self.assertLessEqual(extracted, used)
        declared = {package["name"]: package["licenseDeclared"] for package in self.packages.values()}
        self.assertEqual(declared["libgrpc++.so.1.51"], "Apache-2.0")
        self.assertEqual(declared["libspdlog.so.1.10"], "MIT")
        # Its copyright file is prose.
        self.assertEqual(declared["libc.so.6"], "NOASSERTION")

    def test_is_the_same_for_the_same_binaries(self):
        self.assertEqual(run(*self.binaries).stdout, self.text)


class Refusals(unittest.TestCase):
    def test_says_what_to_do_about_a_binary_that_is_not_there(self):
        done = run("/nowhere/idempotencyd")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cmake --workflow --preset release", done.stderr)

    def test_says_what_is_no_program(self):
        done = run(str(SCRIPT))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is no dynamically linked program", done.stderr)

    def test_writes_a_file(self):
        with tempfile.TemporaryDirectory() as directory:
            target = pathlib.Path(directory, "sbom.json")
            done = run("--output", str(target), binary("IDEMPOTENCYCTL"))
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            self.assertEqual(json.loads(target.read_text())["spdxVersion"], "SPDX-2.3")


if __name__ == "__main__":
    unittest.main()
