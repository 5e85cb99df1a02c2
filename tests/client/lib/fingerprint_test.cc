// The published vectors of fingerprints, and what the options refuse.
#include "idempotency/fingerprint.h"

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/field_mask.pb.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/type.pb.h"
#include "google/protobuf/wrappers.pb.h"
#include "gtest/gtest.h"
#include "idempotency/fingerprint_proto.h"
#include "tests/client/lib/vector_file.h"

namespace idempotency {
namespace {

FingerprintKey Key(const std::string& secret, const std::string& id) {
  return *FingerprintKey::Make(secret, id);
}

// An empty message of a type that is linked here.
std::unique_ptr<google::protobuf::Message> NewMessage(const std::string& type) {
  // Named once, so that the linker keeps their types.
  const google::protobuf::Descriptor* linked[] = {
      google::protobuf::Any::descriptor(),       google::protobuf::Duration::descriptor(),
      google::protobuf::FieldMask::descriptor(), google::protobuf::Struct::descriptor(),
      google::protobuf::Type::descriptor(),      google::protobuf::BoolValue::descriptor()};
  const auto* descriptor = linked[0]->file()->pool()->FindMessageTypeByName(type);
  EXPECT_NE(descriptor, nullptr) << type;
  if (descriptor == nullptr) return nullptr;
  const auto* prototype =
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor);
  return std::unique_ptr<google::protobuf::Message>(prototype->New());
}

std::string JsonOf(const VectorRow& row) {
  return row.Has("json_hex") ? row.Bytes("json_hex") : row.Text("json");
}

absl::StatusOr<Fingerprint> Make(const VectorRow& row) {
  const std::string form = row.Text("form");
  const std::string method = row.Text("method");
  const std::string resource = row.Text("resource");
  FingerprintOptions options{.exclude = row.Texts("exclude")};
  if (row.Has("secret_hex")) options.key = Key(row.Bytes("secret_hex"), row.Text("key_id"));
  if (form == "jcs-1") return FingerprintJson(method, resource, JsonOf(row), options);
  if (form == "bytes-1") {
    const std::string body = row.Bytes("body_hex");
    return options.key ? FingerprintBytes(method, resource, body, *options.key)
                       : FingerprintBytes(method, resource, body);
  }
  const auto message = NewMessage(row.Text("type"));
  if (!message->ParseFromString(row.Bytes("wire_hex"))) {
    return absl::InternalError("the vector's bytes are no message");
  }
  return FingerprintMessage(method, resource, *message, options);
}

TEST(FingerprintTest, Vectors) {
  for (const VectorRow& row : ReadRows("fingerprints.json")) {
    const absl::StatusOr<Fingerprint> fingerprint = Make(row);
    if (row.Flag("refused")) {
      EXPECT_EQ(fingerprint.status().code(), absl::StatusCode::kInvalidArgument) << row;
      continue;
    }
    ASSERT_TRUE(fingerprint.ok()) << row << " " << fingerprint.status();
    EXPECT_EQ(fingerprint->algorithm, row.Text("algorithm")) << row;
    EXPECT_EQ(ToHex(fingerprint->digest), row.Text("digest_hex")) << row;
    if (row.Has("canonical")) {
      EXPECT_EQ(*CanonicalJson(JsonOf(row), row.Texts("exclude")), row.Text("canonical")) << row;
    }
  }
}

TEST(FingerprintTest, FitsTheApi) {
  const Fingerprint longest =
      FingerprintBytes("m", "r", "b", Key(std::string(16, 's'), std::string(24, 'i')));
  EXPECT_EQ(longest.algorithm, "hmac-sha256/bytes-1:" + std::string(24, 'i'));
  EXPECT_LE(longest.algorithm.size(), 64u);
  EXPECT_EQ(longest.digest.size(), 32u);
}

TEST(FingerprintKeyTest, RefusesWhatIsNoSecretOrNoId) {
  EXPECT_TRUE(FingerprintKey::Make(std::string(16, 's')).ok());
  EXPECT_TRUE(FingerprintKey::Make(std::string(16, 's'), std::string(24, 'i')).ok());
  EXPECT_TRUE(FingerprintKey::Make(std::string(16, '\0'), "Az09._-").ok());
  const absl::Status refused[] = {
      FingerprintKey::Make("").status(),
      FingerprintKey::Make(std::string(15, 's')).status(),
      FingerprintKey::Make(std::string(16, 's'), std::string(25, 'i')).status(),
      FingerprintKey::Make(std::string(16, 's'), "a:b").status(),
      FingerprintKey::Make(std::string(16, 's'), "a b").status(),
  };
  for (const absl::Status& status : refused) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().find("sss"), std::string::npos) << "echoes the secret";
  }
}

TEST(FingerprintTest, ErrorsSayWhereAndRepeatNothing) {
  const absl::Status status = CanonicalJson(R"({"card":"4242","card":"4242"})").status();
  EXPECT_EQ(status.message(),
            "JSON, byte 0: this object has two members of one name; send each once");
  EXPECT_EQ(CanonicalJson("[1, x]").status().message(), "JSON, byte 4: no JSON value begins so");
  EXPECT_EQ(CanonicalJson("{}", {"a"}).status().message(),
            "exclude: \"a\" is no JSON pointer; write it as /name/name");
}

TEST(FingerprintTest, TooLargeIsRefused) {
  const size_t most = 16 * 1024 * 1024;
  EXPECT_TRUE(CanonicalJson("\"" + std::string(most - 2, 'a') + "\"").ok());
  EXPECT_FALSE(CanonicalJson("\"" + std::string(most - 1, 'a') + "\"").ok());
}

}  // namespace
}  // namespace idempotency
