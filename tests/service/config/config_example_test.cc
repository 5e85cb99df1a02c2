// The example that is shipped loads, shows every field there is, and tells the truth about the
// built-in defaults.
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "idempotency/config/v1/config.pb.h"
#include "service/config.h"
#include "service/config_yaml.h"
#include "service/presets.h"

namespace idempotency::service {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string ExampleText() {
  std::ifstream file(IDEMPOTENCY_EXAMPLE_CONFIG);
  EXPECT_TRUE(file.is_open()) << IDEMPOTENCY_EXAMPLE_CONFIG;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The same with the sections that are commented out, from `#tls:` on to the end.
std::string WholeExampleText() {
  std::string text = ExampleText();
  size_t line = text.find("\n#tls:");
  EXPECT_NE(line, std::string::npos);
  for (; line != std::string::npos; line = text.find("\n#", line + 1)) text.erase(line + 1, 1);
  return text;
}

// The names of all fields that are set anywhere in `message`.
void CollectSet(const Message& message, std::set<std::string>* names) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    names->insert(field->full_name());
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      CollectSet(message.GetReflection()->GetMessage(message, field), names);
      continue;
    }
    for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i) {
      CollectSet(message.GetReflection()->GetRepeatedMessage(message, field, i), names);
    }
  }
}

TEST(ConfigExampleTest, Loads) {
  const auto config = Config::Load(IDEMPOTENCY_EXAMPLE_CONFIG);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE((*config)->Accepts("unlisted"));
  EXPECT_FALSE((*config)->Names().empty());
  EXPECT_FALSE((*config)->tls());
  EXPECT_FALSE((*config)->identity().takes_tokens());
}

TEST(ConfigExampleTest, LoadsWithWhatIsCommentedOut) {
  const auto config = Config::LoadText(WholeExampleText(), "example");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE((*config)->tls());
  EXPECT_TRUE((*config)->identity().takes_tokens());
}

TEST(ConfigExampleTest, ShowsEveryField) {
  config::v1::Config example;
  FieldLines lines;
  ConfigProblems problems;
  ReadYaml(WholeExampleText(), &example, &lines, &problems);
  ASSERT_EQ(problems.Tell("example"), "");
  std::set<std::string> set;
  CollectSet(example, &set);
  for (const google::protobuf::Descriptor* type :
       {config::v1::Config::descriptor(), config::v1::Namespace::descriptor(),
        config::v1::Quota::descriptor(), config::v1::Limits::descriptor(),
        config::v1::Tls::descriptor(), config::v1::Identity::descriptor(),
        config::v1::JwtIssuer::descriptor(), idempotency::v1::ProviderContract::descriptor()}) {
    for (int i = 0; i < type->field_count(); ++i) {
      EXPECT_EQ(set.count(type->field(i)->full_name()), 1u) << type->field(i)->full_name();
    }
  }
}

TEST(ConfigExampleTest, ShowsEveryPresetAndEveryValueOfAnEnum) {
  const std::string text = ExampleText();
  for (const std::string& preset : PresetNames()) {
    EXPECT_THAT(text, testing::HasSubstr("preset: " + preset));
  }
  for (const char* value : {"RECONCILE_FIRST", "RETRY_SAME_KEY", "RERUN", "REFUSE", "WARN", "OFF",
                            "ALLOW", "REQUIRED", "OPTIONAL"}) {
    EXPECT_THAT(text, testing::HasSubstr(value));
  }
}

TEST(ConfigExampleTest, ItsDefaultsAndLimitsAreTheBuiltInOnes) {
  const auto config = Config::Load(IDEMPOTENCY_EXAMPLE_CONFIG);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*(*config)->PolicyFor("unlisted"), core::Policy{});
  EXPECT_EQ((*config)->limits(), ServerLimits{});
}

}  // namespace
}  // namespace idempotency::service
