#!/usr/bin/env python3
"""Writes an SPDX 2.3 document (JSON) of every library that our binaries are linked with.

  deploy/sbom.py [--output FILE] [BINARY ...]

Without arguments: of build/release/bin/idempotencyd and idempotencyctl, to standard output. What is
linked is what the loader says (ldd), which package and version it is from is what dpkg says, and
its licence is that of "Files: *" in Debian's machine-readable copyright file; where there is none,
NOASSERTION. Libraries that are all headers are compiled in and named below.

Run it on the Debian 12 that the binaries were linked on. SOURCE_DATE_EPOCH sets the date, and then
the same binaries and packages give the same bytes.
"""

import argparse
import datetime
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPYRIGHT_FORMAT = re.compile(r"Format:\s*https?://www\.debian\.org/doc/packaging-manuals/copyright-format/1\.0")

# By binary: packages whose headers are compiled into it.
COMPILED_IN = {"idempotencyctl": ["libcli11-dev"]}

# Debian's short names of licences that SPDX knows by another name, or in another case.
SPDX_NAMES = {
    "apache-2.0": "Apache-2.0",
    "artistic": "Artistic-1.0-Perl",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "bsd-3-google": "BSD-3-Clause",
    "bsd-3-clause~google": "BSD-3-Clause",
    "cc0-1.0": "CC0-1.0",
    "expat": "MIT",
    "gpl-1+": "GPL-1.0-or-later",
    "gpl-2": "GPL-2.0-only",
    "gpl-2+": "GPL-2.0-or-later",
    "gpl-3+": "GPL-3.0-or-later",
    "mit": "MIT",
    "x11": "X11",
    "zlib": "Zlib",
}


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


# --- What is linked ------------------------------------------------------------------------------


def loaded(binary):
    """By its soname, the path of each library that the loader brings in."""
    libraries = {}
    for line in output_of("ldd", str(binary)).splitlines():
        words = line.split()
        if "not found" in line:
            sys.exit(f"{binary}: {words[0]} is not installed here; run this where it was linked")
        path = words[2] if len(words) > 2 and words[1] == "=>" else words[0]
        if path.startswith("/"):
            libraries[pathlib.Path(words[0]).name] = path
    if not libraries:
        sys.exit(f"{binary} is no dynamically linked program; build the release preset first")
    return libraries


def needed(binary):
    """The sonames that the binary itself asks for."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "-dW", str(binary)))


def packages_of(paths):
    """By path, the Debian package that it is from."""
    # dpkg may know a file of /usr/lib as one of /lib.
    ways = {path: {path, os.path.realpath(path)} for path in paths}
    for known_as in ways.values():
        known_as |= {way.removeprefix("/usr") for way in known_as} | {"/usr" + way for way in known_as}
    asked = subprocess.run(
        ["dpkg", "-S", *sorted(set().union(*ways.values()))],
        capture_output=True,
        text=True,
        check=False,  # it fails where it does not know one of them
    )
    owners = {}
    for line in asked.stdout.splitlines():
        packages, _, way = line.partition(": ")
        if not line.startswith("diversion "):
            owners[way] = packages.split(",")[0]
    return {path: next((owners[w] for w in sorted(ways[path]) if w in owners), None) for path in paths}


@functools.cache
def facts_of(package):
    """What dpkg knows of it."""
    fields = ["Package", "Version", "Architecture", "source:Package", "source:Version", "Homepage"]
    query = "\\n".join("${" + field + "}" for field in fields)
    values = output_of("dpkg-query", "-W", f"-f={query}", package).split("\n")
    return dict(zip(fields, values)) if len(values) == len(fields) else {}


# --- Licences ------------------------------------------------------------------------------------


def licence_of(package, extracted):
    """An SPDX expression. Names that SPDX has none for go into `extracted` by their reference."""
    copyright_file = pathlib.Path("/usr/share/doc", package.split(":")[0], "copyright")
    if not copyright_file.exists():
        return "NOASSERTION"
    text = copyright_file.read_text(encoding="utf-8", errors="replace")
    if not COPYRIGHT_FORMAT.match(text):
        return "NOASSERTION"
    for stanza in re.split(r"\n\s*\n", text):
        if re.search(r"^Files:\s*\*\s*$", stanza, re.M):
            licence = re.search(r"^License:[ \t]*(\S.*)$", stanza, re.M)
            return expression(licence[1], copyright_file, extracted) if licence else "NOASSERTION"
    return "NOASSERTION"


def expression(debian, copyright_file, extracted):
    parts = re.split(r"\s+(or|and)\s+", debian.replace(",", " ").strip(), flags=re.I)
    words = []
    for part in parts:
        if part.lower() in ("or", "and"):
            words.append(part.upper())
            continue
        name = SPDX_NAMES.get(part.strip().lower())
        if name is None:
            name = "LicenseRef-Debian-" + re.sub(r"[^A-Za-z0-9.-]+", "-", part.strip())
            extracted[name] = (part.strip(), str(copyright_file))
        words.append(name)
    return " ".join(words)


# --- The document ----------------------------------------------------------------------------------


def spdx_id(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", lambda odd: f"-{ord(odd[0]):x}-", name)


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def version():
    project = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(idempotency VERSION ([0-9.]+)", project)[1]


def from_debian(name, package, path, extracted):
    """The package element of one library, or of headers where there is no path."""
    facts = facts_of(package) if package else {}
    element = {
        "SPDXID": spdx_id(name),
        "name": name,
        "versionInfo": facts.get("Version", "NOASSERTION"),
        "supplier": "Organization: Debian" if facts else "NOASSERTION",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence_of(package, extracted) if facts else "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }
    if path:
        element["packageFileName"] = os.path.realpath(path)
        element["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256(path)}]
    if facts:
        element["sourceInfo"] = (
            f"Debian package {facts['Package']}, built from source "
            f"{facts['source:Package']} {facts['source:Version']}"
        )
        purl = f"pkg:deb/debian/{facts['Package'].replace('+', '%2B')}@" + facts["Version"].replace(
            "+", "%2B"
        ).replace(":", "%3A")
        element["externalRefs"] = [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"{purl}?arch={facts['Architecture']}",
            }
        ]
        if facts["Homepage"]:
            element["homepage"] = facts["Homepage"]
    return element


def of_ours(binary):
    return {
        "SPDXID": spdx_id(binary.name),
        "name": binary.name,
        "versionInfo": version(),
        "packageFileName": binary.name,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
        "checksums": [{"algorithm": "SHA256", "checksumValue": sha256(binary)}],
    }


def relation(element, kind, related):
    return {"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": related}


def document(binaries):
    packages, relationships, extracted = {}, [], {}
    for binary in binaries:
        us = spdx_id(binary.name)
        packages[us] = of_ours(binary)
        relationships.append(relation("SPDXRef-DOCUMENT", "DESCRIBES", us))
        asked_for = needed(binary)
        libraries = loaded(binary)
        owners = packages_of(libraries.values())
        parts = [
            (soname, owners[path], path, "DYNAMIC_LINK" if soname in asked_for else "DEPENDS_ON")
            for soname, path in sorted(libraries.items())
        ]
        parts += [(package, package, None, "STATIC_LINK") for package in COMPILED_IN.get(binary.name, [])]
        for name, package, path, kind in parts:
            if spdx_id(name) not in packages:
                packages[spdx_id(name)] = from_debian(name, package, path, extracted)
            relationships.append(relation(us, kind, spdx_id(name)))
    content = {
        "packages": list(packages.values()),
        "relationships": relationships,
        "hasExtractedLicensingInfos": [
            {
                "licenseId": reference,
                "name": name,
                "extractedText": f"Called {name!r} in {copyright_file}, which has its text.",
            }
            for reference, (name, copyright_file) in sorted(extracted.items())
        ],
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"idempotency-{version()}",
        "documentNamespace": f"https://spdx.org/spdxdocs/idempotency-{version()}-{digest}",
        "creationInfo": {
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": [f"Tool: idempotency-sbom-{version()}"],
        },
        **content,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=pathlib.Path, help="write there and not to standard output")
    parser.add_argument("binaries", metavar="BINARY", type=pathlib.Path, nargs="*")
    arguments = parser.parse_args()
    default = [ROOT / "build/release/bin" / name for name in ("idempotencyd", "idempotencyctl")]
    binaries = arguments.binaries or default
    for binary in binaries:
        if not binary.is_file():
            sys.exit(f"{binary} is not there; build it: cmake --workflow --preset release")
    text = json.dumps(document(binaries), indent=2) + "\n"
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
