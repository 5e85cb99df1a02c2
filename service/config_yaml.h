// Reads YAML text into any proto message, by its descriptor: the message is the schema.
//
//   bool                true | false, without quotes
//   uint32              digits, without quotes
//   string              text, with or without quotes
//   enum                a value's name without the prefix that all share
//   Duration            24h, 1h30m, 500ms (duration_text.h)
//   message             a mapping of field names to values
//   repeated            a list; of messages with a `name` also a mapping by name
//
// Nothing is guessed: unknown and repeated fields, values of another type and fields without
// a value are problems, each with its line, and all are found in one go.
#ifndef IDEMPOTENCY_SERVICE_CONFIG_YAML_H_
#define IDEMPOTENCY_SERVICE_CONFIG_YAML_H_

#include <map>
#include <string>
#include <string_view>

#include "google/protobuf/message.h"
#include "service/config_problems.h"

namespace idempotency::service {

// The line of every field and list item that the text sets, by path (`namespaces[2].name`).
using FieldLines = std::map<std::string, int, std::less<>>;
// The line of the field at `path`; `otherwise` where the file does not have it.
int LineOf(const FieldLines& lines, std::string_view path, int otherwise = 0);

// Fills `message`, which should be empty. A field with a problem stays unset; an item of a list
// of messages is there all the same, so that places in the list and in the message agree.
void ReadYaml(std::string_view text, google::protobuf::Message* message, FieldLines* lines,
              ConfigProblems* problems);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_CONFIG_YAML_H_
