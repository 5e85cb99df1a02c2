#include "service/config_yaml.h"

#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "idempotency/config/v1/config.pb.h"

namespace idempotency::service {
namespace {

struct Read {
  config::v1::Config config;
  FieldLines lines;
  std::string problems;
};

Read ReadText(std::string_view text) {
  Read read;
  ConfigProblems problems;
  ReadYaml(text, &read.config, &read.lines, &problems);
  read.problems = problems.Tell("f.yaml");
  return read;
}

config::v1::Config FromTextFormat(const std::string& text) {
  config::v1::Config config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

TEST(ConfigYamlTest, ReadsEveryKindOfField) {
  const struct {
    const char* name;
    const char* yaml;
    const char* expected;
  } kRows[] = {
      {"nothing at all", "", ""},
      {"only comments", "# nothing\n\n# more\n", ""},
      {"a document without a value", "---\n", ""},
      {"byte order mark", "\xEF\xBB\xBFlimits: {max_waiters: 1}", "limits { max_waiters: 1 }"},
      {"Windows line ends", "limits:\r\n  max_waiters: 1\r\n", "limits { max_waiters: 1 }"},
      {"bool", "defaults: {scope_optional: true, fingerprint_optional: false}",
       "defaults { scope_optional: true fingerprint_optional: false }"},
      {"zero is not unset", "defaults: {max_attempts: 0, retention: 0s}",
       "defaults { max_attempts: 0 retention {} }"},
      {"largest number", "defaults: {max_attempts: 4294967295}",
       "defaults { max_attempts: 4294967295 }"},
      {"text", "defaults: {description: a charge at the provider}",
       "defaults { description: 'a charge at the provider' }"},
      {"text that looks like a number", "defaults: {description: 2024-01-01, name: 12}",
       "defaults { description: '2024-01-01' name: '12' }"},
      {"text over lines", "defaults:\n  description: >-\n    one\n    two\n",
       "defaults { description: 'one two' }"},
      {"text in quotes", "defaults: {description: \"null\"}", "defaults { description: 'null' }"},
      {"empty text", "defaults: {description: ''}", "defaults { description: '' }"},
      {"enum by its short name", "defaults: {unknown_outcome: RETRY_SAME_KEY, key_check: WARN}",
       "defaults { unknown_outcome: UNKNOWN_OUTCOME_POLICY_RETRY_SAME_KEY "
       "key_check: KEY_CHECK_WARN }"},
      {"duration", "defaults: {retention: 1h500ms, max_backoff: '5m'}",
       "defaults { retention { seconds: 3600 nanos: 500000000 } max_backoff { seconds: 300 } }"},
      {"negative duration is left to the rules", "defaults: {retention: -500ms}",
       "defaults { retention { nanos: -500000000 } }"},
      {"list of texts", "defaults: {provider: {endpoints: [POST /a, 'POST /b']}}",
       "defaults { provider { endpoints: 'POST /a' endpoints: 'POST /b' } }"},
      {"list of objects", "namespaces:\n- name: a\n- name: b\n  max_attempts: 2\n",
       "namespaces { name: 'a' } namespaces { name: 'b' max_attempts: 2 }"},
      {"mapping by name", "namespaces:\n  b: {max_attempts: 2}\n  a:\n",
       "namespaces { name: 'b' max_attempts: 2 } namespaces { name: 'a' }"},
      {"empty list", "namespaces: []", ""},
      {"JSON", "{\"unlisted_namespaces\": \"ALLOW\", \"limits\": {\"max_waiters\": 5}}",
       "unlisted_namespaces: UNLISTED_NAMESPACES_ALLOW limits { max_waiters: 5 }"},
      {"alias", "namespaces:\n- {name: a, provider: &p {name: P}}\n- {name: b, provider: *p}\n",
       "namespaces { name: 'a' provider { name: 'P' } } "
       "namespaces { name: 'b' provider { name: 'P' } }"},
  };
  for (const auto& row : kRows) {
    const Read read = ReadText(row.yaml);
    EXPECT_EQ(read.problems, "") << row.name;
    EXPECT_EQ(read.config.DebugString(), FromTextFormat(row.expected).DebugString()) << row.name;
  }
}

TEST(ConfigYamlTest, KnowsTheLineOfEveryField) {
  const Read read = ReadText(
      "# a comment\n"
      "defaults:\n"
      "  retention: 1h\n"
      "\n"
      "namespaces:\n"
      "  - name: a\n"
      "    provider:\n"
      "      endpoints:\n"
      "        - POST /a\n"
      "  -\n"
      "    description: >\n"
      "      long\n"
      "    name: b\n");
  EXPECT_EQ(read.problems, "");
  const FieldLines expected = {
      {"defaults", 2},
      {"defaults.retention", 3},
      {"namespaces", 5},
      {"namespaces[0]", 6},
      {"namespaces[0].name", 6},
      {"namespaces[0].provider", 7},
      {"namespaces[0].provider.endpoints", 8},
      {"namespaces[0].provider.endpoints[0]", 9},
      {"namespaces[1]", 11},
      {"namespaces[1].description", 11},
      {"namespaces[1].name", 13},
  };
  EXPECT_EQ(read.lines, expected);
}

TEST(ConfigYamlTest, KnowsTheLineOfEveryFieldByName) {
  const Read read = ReadText("namespaces:\n  a:\n  b:\n    retention: 1h\n");
  EXPECT_EQ(read.problems, "");
  const FieldLines expected = {{"namespaces", 1},         {"namespaces[0]", 2},
                               {"namespaces[0].name", 2}, {"namespaces[1]", 3},
                               {"namespaces[1].name", 3}, {"namespaces[1].retention", 4}};
  EXPECT_EQ(read.lines, expected);
}

constexpr char kNotADuration[] =
    " is not a duration: write whole numbers with the units d, h, m, s or ms, the largest first, "
    "such as 24h, 1h30m or 500ms";

struct Case {
  const char* name;
  std::string yaml;
  std::string expected;
};

template <size_t n>
void ExpectProblems(const Case (&cases)[n]) {
  for (const Case& row : cases) EXPECT_EQ(ReadText(row.yaml).problems, row.expected) << row.name;
}

TEST(ConfigYamlTest, SaysWhatIsWrongWithFields) {
  const Case kRows[] = {
      {"unknown field, close to one", "defaults:\n  retentoin: 1h\n",
       "f.yaml:2: defaults.retentoin: unknown field: did you mean retention?"},
      {"unknown field, close to none", "limits:\n  whatever: 1\n",
       "f.yaml:2: limits.whatever: unknown field: use one of max_waiters, max_waiters_per_key, "
       "max_queued_commands"},
      {"unknown field at the top", "default: {}\n",
       "f.yaml:1: default: unknown field: did you mean defaults?"},
      {"a name that cannot be printed", "limits:\n  \"a\\n\\x01\": 1\n",
       "f.yaml:2: limits.a\\n\\001: unknown field: use one of max_waiters, max_waiters_per_key, "
       "max_queued_commands"},
      {"field set twice", "limits:\n  max_waiters: 1\n  max_waiters: 1\n",
       "f.yaml:3: limits.max_waiters: already set on line 2: keep one of the two"},
      {"section twice", "limits: {}\ndefaults: {}\nlimits: {}\n",
       "f.yaml:3: limits: already set on line 1: keep one of the two"},
      {"name twice in a mapping", "namespaces:\n  a:\n  b:\n  a:\n",
       "f.yaml:4: namespaces: 'a' is already defined on line 2: rename or remove one of the two"},
      {"name inside and outside", "namespaces:\n  a:\n    name: a\n",
       "f.yaml:3: namespaces[0].name: the name stands before the colon: remove this one"},
      {"merge key", "defaults: &d {retention: 1h}\nnamespaces:\n- name: a\n  <<: *d\n",
       "f.yaml:4: namespaces[0].<<: merge keys are not supported: put what is common into "
       "defaults, or use an alias for a whole value"},
      {"no value", "defaults:\n  retention:\n",
       "f.yaml:2: defaults.retention: has no value: give it one, or remove the line"},
      {"null", "defaults: {description: ~, retention: null}\n",
       "f.yaml:1: defaults.description: has no value: give it one, or remove the line\n"
       "f.yaml:1: defaults.retention: has no value: give it one, or remove the line"},
  };
  ExpectProblems(kRows);
}

TEST(ConfigYamlTest, SaysWhatIsWrongWithValues) {
  const Case kRows[] = {
      {"bool, something else", "defaults: {scope_optional: yes}",
       "f.yaml:1: defaults.scope_optional: 'yes' must be true or false"},
      {"bool in quotes", "defaults: {scope_optional: \"true\"}",
       "f.yaml:1: defaults.scope_optional: is text in quotes, but must be true or false"},
      {"number, negative", "defaults: {max_attempts: -1}",
       "f.yaml:1: defaults.max_attempts: '-1' is not a whole number up to 4294967295: write digits "
       "only"},
      {"number, too large", "defaults: {max_attempts: 4294967296}",
       "f.yaml:1: defaults.max_attempts: '4294967296' is not a whole number up to 4294967295: "
       "write digits only"},
      {"number, broken", "defaults: {max_attempts: 1.0}",
       "f.yaml:1: defaults.max_attempts: '1.0' is not a whole number up to 4294967295: write "
       "digits only"},
      {"number in quotes", "defaults: {max_attempts: '1'}",
       "f.yaml:1: defaults.max_attempts: is text in quotes, but must be a whole number"},
      {"number, a list", "defaults: {max_attempts: [1]}",
       "f.yaml:1: defaults.max_attempts: is a list, but must be a whole number"},
      {"text, a mapping", "defaults: {description: {a: b}}",
       "f.yaml:1: defaults.description: is a mapping, but must be text"},
      {"text without quotes around a colon", "defaults:\n  description: a: b\n",
       "f.yaml:2: not readable as YAML (illegal map value): mend the syntax here"},
      {"enum, unknown", "defaults: {unknown_outcome: RETRY}",
       "f.yaml:1: defaults.unknown_outcome: 'RETRY' is not known: write one of RECONCILE_FIRST, "
       "RETRY_SAME_KEY, RERUN"},
      {"enum, the zero", "defaults: {key_check: UNSPECIFIED}",
       "f.yaml:1: defaults.key_check: 'UNSPECIFIED' is not known: write one of REFUSE, WARN, OFF"},
      {"enum, another case", "unlisted_namespaces: allow",
       "f.yaml:1: unlisted_namespaces: 'allow' is not known: write one of ALLOW, REFUSE"},
      {"enum, a list", "unlisted_namespaces: [ALLOW]",
       "f.yaml:1: unlisted_namespaces: is a list, but must be one of ALLOW, REFUSE"},
      {"duration, without a unit", "defaults: {retention: 24}",
       "f.yaml:1: defaults.retention: '24' has no unit: write 24s, 24m or 24h for seconds, minutes "
       "or hours"},
      {"duration, no such unit", "defaults: {retention: 24x}",
       std::string("f.yaml:1: defaults.retention: '24x'") + kNotADuration},
      {"duration, a mapping", "defaults: {retention: {seconds: 5}}",
       "f.yaml:1: defaults.retention: is a mapping, but must be a duration such as 30s, 24h or "
       "7d"},
  };
  ExpectProblems(kRows);
}

TEST(ConfigYamlTest, SaysWhatIsWrongWithTheShape) {
  const Case kRows[] = {
      {"section, a value", "limits: 5",
       "f.yaml:1: limits: is a single value, but must be fields with their values, indented below "
       "it"},
      {"namespaces, a value", "namespaces: payments",
       "f.yaml:1: namespaces: is a single value, but must be a list of objects with a name, or a "
       "mapping by name"},
      {"namespace, only its name", "namespaces:\n- payments\n",
       "f.yaml:2: namespaces[0]: is a single value, but must be fields with their values, indented "
       "below it"},
      // The parser gives the place of what comes next.
      {"namespace, nothing", "namespaces:\n- name: a\n-\n",
       "f.yaml:4: namespaces[1]: is nothing, but must be fields with their values, indented below "
       "it"},
      {"list of texts, a value", "defaults: {provider: {endpoints: POST /a}}",
       "f.yaml:1: defaults.provider.endpoints: is a single value, but must be a list, one '- ' "
       "line for each item"},
      {"list of texts, an object in it", "defaults:\n  provider:\n    endpoints:\n    - a: b\n",
       "f.yaml:4: defaults.provider.endpoints[0]: is a mapping, but must be text"},
      {"the file, a list", "- a\n- b\n",
       "f.yaml:1: the file is a list, but must be fields with their values, such as 'defaults:'"},
      {"the file, a value", "\nhello\n",
       "f.yaml:2: the file is a single value, but must be fields with their values, such as "
       "'defaults:'"},
      {"two documents", "limits: {}\n---\nlimits: {}\n",
       "f.yaml:3: a second document begins here: put everything into one"},
  };
  ExpectProblems(kRows);
}

TEST(ConfigYamlTest, SaysWhatIsNotReadAsYaml) {
  const Case kRows[] = {
      {"a tag", "defaults:\n  description: !!binary aGVsbG8=\n",
       "f.yaml:2: the tag 'tag:yaml.org,2002:binary' is not supported: remove it"},
      {"a key that is no text", "defaults:\n  ? [a, b]\n  : c\n",
       "f.yaml:2: the key of a mapping is no text: write a field's name\n"
       "f.yaml:2: defaults.: unknown field: use one of name, description, preset, "
       "scope_optional, fingerprint_optional, default_lease_duration, max_lease_duration, "
       "max_hold_duration, max_wait_duration, retention, max_retention, expired_memory, "
       "unknown_outcome, protection_window, max_attempts, initial_backoff, max_backoff, "
       "settle_duration, max_key_bytes, max_response_bytes, key_check, provider, "
       "quota, scope_quota"},
      {"an alias to nothing", "defaults: {provider: *p}",
       "f.yaml:1: not readable as YAML (the referenced anchor is not defined): mend the syntax "
       "here"},
      {"an alias to itself", "namespaces: &n\n- *n\n",
       "f.yaml:2: an alias stands within the value it names: write it out\n"
       "f.yaml:2: namespaces[0]: is nothing, but must be fields with their values, indented below "
       "it"},
      {"tab as indentation", "defaults:\n\tretention: 1h\n",
       "f.yaml:2: not readable as YAML (illegal map value): mend the syntax here"},
  };
  ExpectProblems(kRows);
}

TEST(ConfigYamlTest, SaysWhatIsNotText) {
  const Case kRows[] = {
      {"not UTF-8", "limits: {}\n# caf\xE9\n",
       "f.yaml:2: not UTF-8 text, or a control character: save the file as UTF-8"},
      {"UTF-8 of a surrogate", "# \xED\xA0\x80\n",
       "f.yaml:1: not UTF-8 text, or a control character: save the file as UTF-8"},
      {"UTF-8 longer than needed", "# \xC0\xAF\n",
       "f.yaml:1: not UTF-8 text, or a control character: save the file as UTF-8"},
      {"UTF-8 cut off", "# \xE2\x82",
       "f.yaml:1: not UTF-8 text, or a control character: save the file as UTF-8"},
      // The parser would take it for the end, and the rest for not there.
      {"a control character", "limits: {}\n\x04nonsense: 1\n",
       "f.yaml:2: not UTF-8 text, or a control character: save the file as UTF-8"},
      {"a NUL", std::string("a: b\n\0", 6),
       "f.yaml:2: not UTF-8 text, or a control character: save the file as UTF-8"},
  };
  ExpectProblems(kRows);
}

TEST(ConfigYamlTest, SaysItAllAtOnce) {
  const Case kRows[] = {
      {"all at once, by line", "limits: {max_waiters: x}\ndefaults: 1\nnamespaces: 2\n",
       "f.yaml:1: limits.max_waiters: 'x' is not a whole number up to 4294967295: write digits "
       "only\n"
       "f.yaml:2: defaults: is a single value, but must be fields with their values, indented "
       "below it\n"
       "f.yaml:3: namespaces: is a single value, but must be a list of objects with a name, or a "
       "mapping by name"},
  };
  ExpectProblems(kRows);
}

TEST(ConfigYamlTest, FieldsWithProblemsStayUnset) {
  const Read read = ReadText(
      "defaults: {scope_optional: maybe, max_attempts: many, retention: 5, key_check: NO}\n"
      "namespaces: [1, {name: b}]\n");
  EXPECT_EQ(read.config.DebugString(),
            FromTextFormat("defaults {} namespaces {} namespaces { name: 'b' }").DebugString());
}

TEST(ConfigYamlTest, DeepNestingIsRefused) {
  std::string flow = "defaults: ";
  for (int i = 0; i < 100; ++i) flow += "[";
  EXPECT_NE(ReadText(flow + std::string(100, ']'))
                .problems.find(
                    "f.yaml:1: nested deeper than 32 levels: no field of this file is so deep"),
            std::string::npos);
  // Beyond what the parser itself goes along with.
  for (const std::string& deep : {std::string(500'000, '['), std::string(500'000, '{')}) {
    EXPECT_NE(ReadText(deep).problems, "");
  }
  std::string block;
  for (int i = 0; i < 1000; ++i) block += std::string(i, ' ') + "a:\n";
  EXPECT_NE(ReadText(block).problems, "");
}

TEST(ConfigYamlTest, ManyValuesAreRefused) {
  std::string many = "defaults: {provider: {endpoints: [";
  for (int i = 0; i < 100'001; ++i) many += "a,";
  EXPECT_EQ(ReadText(many + "]}}").problems, "f.yaml:1: more than 100000 values: shorten the file");
}

TEST(ConfigYamlTest, AliasesDoNotMultiplyWithoutEnd) {
  std::string bomb = "namespaces:\n- provider: &p\n    endpoints: [";
  for (int i = 0; i < 1000; ++i) bomb += "a,";
  bomb += "]\n";
  for (int i = 0; i < 1000; ++i) bomb += "- provider: *p\n";
  const Read read = ReadText(bomb);
  EXPECT_NE(read.problems.find("more than 100000 values, counting each use of an alias: shorten "
                               "the file"),
            std::string::npos)
      << read.problems;
  EXPECT_LT(read.lines.size(), 110'000u);
}

// A field of a type that the reader does not know could never be set.
TEST(ConfigYamlTest, TheSchemaHasOnlyTypesThatCanBeRead) {
  using google::protobuf::FieldDescriptor;
  for (const google::protobuf::Descriptor* type :
       {config::v1::Config::descriptor(), config::v1::Namespace::descriptor(),
        config::v1::Limits::descriptor(), idempotency::v1::ProviderContract::descriptor()}) {
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor& field = *type->field(i);
      const bool readable = field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL ||
                            field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32 ||
                            field.cpp_type() == FieldDescriptor::CPPTYPE_STRING ||
                            field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM ||
                            field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      EXPECT_TRUE(readable) << field.full_name();
      EXPECT_FALSE(field.is_map()) << field.full_name();
      if (!field.is_repeated()) continue;
      EXPECT_TRUE(field.cpp_type() == FieldDescriptor::CPPTYPE_STRING ||
                  field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
          << field.full_name();
    }
  }
}

}  // namespace
}  // namespace idempotency::service
