// Reads YAML documents from standard input, holds each against its published schema, and writes
// them as one JSON array. What does not fit goes to standard error, and ends it with 1.
//
// Twice, since each sees what the other does not: by the models' JSON schemas (what has to be there,
// formats, enumerations), and as literals of the models' types, where TypeScript refuses every field
// that there is not.
"use strict";
const fs = require("fs");
const path = require("path");
const typescript = require("typescript");
const yaml = require("js-yaml");

// Where the models of an API group are.
const PACKAGES = {
  "cert-manager.io": "@kubernetes-models/cert-manager/",
  "monitoring.coreos.com": "@kubernetes-models/prometheus-operator/",
};

function moduleOf(document) {
  const group = String(document.apiVersion).split("/")[0];
  return `${PACKAGES[group] ?? "kubernetes-models/"}${document.apiVersion}/${document.kind}`;
}

function nameOf(document) {
  return `${document.kind} ${document.metadata?.name}`;
}

function schemaFaults(document) {
  let model;
  try {
    model = require(moduleOf(document))[document.kind];
  } catch {
    return [`${nameOf(document)}: no schema of ${document.apiVersion}; is it the right version?`];
  }
  try {
    new model(document).validate();
    return [];
  } catch (error) {
    return [`${nameOf(document)}: ${error.message}`];
  }
}

function typeFaults(documents) {
  const file = path.join(__dirname, "documents.ts");
  const text = documents
    .map((document, i) => {
      const type = `I${document.kind}`;
      const from = JSON.stringify(moduleOf(document));
      return `import type { ${type} as T${i} } from ${from};
export const document${i}: T${i} = ${JSON.stringify(document, null, 1)};`;
    })
    .join("\n");
  const options = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: typescript.ScriptTarget.ES2022,
    module: typescript.ModuleKind.CommonJS,
    moduleResolution: typescript.ModuleResolutionKind.Node10,
    types: [],
  };
  const host = typescript.createCompilerHost(options);
  const readFromDisk = host.getSourceFile;
  host.getSourceFile = (name, language) =>
    name === file
      ? typescript.createSourceFile(name, text, language)
      : readFromDisk(name, language);
  const program = typescript.createProgram([file], options, host);
  const lines = text.split("\n");
  return typescript.getPreEmitDiagnostics(program).map((fault) => {
    const words = typescript.flattenDiagnosticMessageText(fault.messageText, "\n  ");
    if (fault.file?.fileName !== file) return words;
    const { line } = fault.file.getLineAndCharacterOfPosition(fault.start);
    const declared = lines.slice(0, line + 1).join("\n").match(/const document\d+/g);
    const document = documents[Number(declared.at(-1).match(/\d+/)[0])];
    return `${nameOf(document)}: at ${lines[line].trim()} ${words}`;
  });
}

const documents = yaml.loadAll(fs.readFileSync(0, "utf-8")).filter((document) => document);
const faults = documents.flatMap(schemaFaults);
if (faults.length === 0) faults.push(...typeFaults(documents));
process.stdout.write(JSON.stringify(documents));
if (faults.length > 0) {
  process.stderr.write(faults.join("\n") + "\n");
  process.exitCode = 1;
}
