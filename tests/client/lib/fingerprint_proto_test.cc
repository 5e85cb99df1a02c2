// Messages that the published vectors have no types for: proto2, groups, extensions, every
// scalar, maps of messages; built from descriptors, as no language but C++ has to read them.
#include "idempotency/fingerprint_proto.h"

#include <memory>
#include <string>
#include <vector>

#include "client/src/proto_canonical.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "tests/client/lib/vector_file.h"

namespace idempotency {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::DynamicMessageFactory;
using google::protobuf::FileDescriptorProto;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr char kFile[] = R"pb(
  name: "a.proto"
  package: "t"
  message_type {
    name: "M"
    field { name: "i32" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
    field { name: "s32" number: 2 type: TYPE_SINT32 label: LABEL_OPTIONAL }
    field { name: "sf64" number: 3 type: TYPE_SFIXED64 label: LABEL_OPTIONAL }
    field { name: "f32" number: 4 type: TYPE_FIXED32 label: LABEL_OPTIONAL }
    field {
      name: "packed"
      number: 5
      type: TYPE_INT32
      label: LABEL_REPEATED
      options { packed: true }
    }
    field { name: "group" number: 6 type: TYPE_GROUP type_name: ".t.M.Group" label: LABEL_OPTIONAL }
    field { name: "must" number: 7 type: TYPE_STRING label: LABEL_OPTIONAL default_value: "x" }
    field { name: "inner" number: 8 type: TYPE_MESSAGE type_name: ".t.M" label: LABEL_OPTIONAL }
    field { name: "many" number: 9 type: TYPE_MESSAGE type_name: ".t.M" label: LABEL_REPEATED }
    field {
      name: "by_key"
      number: 10
      type: TYPE_MESSAGE
      type_name: ".t.M.ByKeyEntry"
      label: LABEL_REPEATED
    }
    nested_type {
      name: "Group"
      field { name: "b" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL }
    }
    nested_type {
      name: "ByKeyEntry"
      field { name: "key" number: 1 type: TYPE_SINT64 label: LABEL_OPTIONAL }
      field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".t.M" label: LABEL_OPTIONAL }
      options { map_entry: true }
    }
    extension_range { start: 100 end: 200 }
  }
  extension { name: "extra" number: 150 extendee: ".t.M" type: TYPE_INT64 label: LABEL_OPTIONAL }
)pb";

class FingerprintProtoTest : public testing::Test {
 protected:
  FingerprintProtoTest() : factory_(&pool_) {
    FileDescriptorProto file;
    EXPECT_TRUE(TextFormat::ParseFromString(kFile, &file));
    EXPECT_NE(pool_.BuildFile(file), nullptr);
  }

  std::unique_ptr<Message> Parse(const std::string& text) {
    std::unique_ptr<Message> message(
        factory_.GetPrototype(pool_.FindMessageTypeByName("t.M"))->New());
    EXPECT_TRUE(TextFormat::ParseFromString(text, message.get())) << text;
    return message;
  }

  std::string Canonical(const std::string& text, const std::vector<std::string>& exclude = {}) {
    const auto content = internal::CanonicalMessage(*Parse(text), exclude);
    EXPECT_TRUE(content.ok()) << content.status();
    return content.ok() ? ToHex(*content) : content.status().ToString();
  }

  DescriptorPool pool_;
  DynamicMessageFactory factory_;
};

TEST_F(FingerprintProtoTest, BytesAreAsTheGrammarSays) {
  const struct {
    const char* name;
    const char* message;
    const char* content;
  } rows[] = {
      {"nothing", "", ""},
      {"int32", "i32: -2", "0000000169fffffffffffffffe"},
      {"int32 set to its default", "i32: 0", "00000001690000000000000000"},
      {"sint32", "s32: -2", "0000000269fffffffffffffffe"},
      {"sfixed64", "sf64: 5", "00000003690000000000000005"},
      {"fixed32", "f32: 4294967295", "000000047500000000ffffffff"},
      {"packed", "packed: [1, 0]",
       "00000005720000000000000002690000000000000001690000000000000000"},
      {"group", "Group { b: true }", "000000066d0000000000000006000000016201"},
      {"text set to its own default", "must: 'x'", "0000000773000000000000000178"},
      {"empty message", "inner {}", "000000086d0000000000000000"},
      {"repeated messages", "many {} many { i32: 1 }",
       "000000097200000000000000026d00000000000000006d000000000000000d"
       "00000001690000000000000001"},
      {"map", "by_key { key: -1 value {} } by_key { key: 1 value {} }",
       "0000000a700000000000000002"
       "6900000000000000016d0000000000000000"
       "69ffffffffffffffff6d0000000000000000"},
      {"extension", "[t.extra]: 7", "00000096690000000000000007"},
  };
  for (const auto& row : rows) EXPECT_EQ(Canonical(row.message), row.content) << row.name;
}

TEST_F(FingerprintProtoTest, PackedOrNotIsTheSame) {
  const auto packed = Parse("packed: [1, 2]");
  auto unpacked = Parse("");
  ASSERT_TRUE(unpacked->ParseFromString(FromHex("28012802")));
  EXPECT_EQ(*internal::CanonicalMessage(*unpacked, {}), *internal::CanonicalMessage(*packed, {}));
}

TEST_F(FingerprintProtoTest, UnknownFieldsOfEveryKindKeepTheirValues) {
  const auto message = Parse("");
  // 20: group of varint 1; 19: bytes; 18: fixed64; 17: fixed32; 16: varint.
  ASSERT_TRUE(
      message->ParseFromString(FromHex("a3010801a401"
                                       "9a010161"
                                       "91010807060504030201"
                                       "8d0104030201"
                                       "80017b")));
  EXPECT_EQ(ToHex(*internal::CanonicalMessage(*message, {})),
            "0000001056000000000000007b"
            "000000115701020304"
            "00000012580102030405060708"
            "000000134c000000000000000161"
            "0000001447000000000000000d00000001560000000000000001");
}

TEST_F(FingerprintProtoTest, ExclusionsReachEveryElement) {
  const std::string full =
      "i32: 1 inner { i32: 2 must: 'a' } many { i32: 3 must: 'b' } many { i32: 4 } "
      "by_key { key: 1 value { i32: 5 must: 'c' } }";
  EXPECT_EQ(Canonical(full, {"i32", "inner.i32", "many.i32", "by_key.i32"}),
            Canonical("inner { must: 'a' } many { must: 'b' } many {} "
                      "by_key { key: 1 value { must: 'c' } }"));
  EXPECT_EQ(Canonical(full, {"inner", "many", "by_key"}), Canonical("i32: 1"));
  // A whole field and a part of it: the whole.
  EXPECT_EQ(Canonical(full, {"inner.i32", "inner", "many", "by_key"}), Canonical("i32: 1"));
  EXPECT_EQ(Canonical("i32: 1", {"inner.inner.inner.i32"}), Canonical("i32: 1"));
}

TEST_F(FingerprintProtoTest, WrongPathsAreRefused) {
  const struct {
    const char* path;
    const char* message;
  } rows[] = {
      {"", "exclude: \"\" names no field of t.M"},
      {"i33", "exclude: \"i33\" names no field of t.M"},
      {"i32.x", "exclude: \"i32.x\" goes on behind a value that has no fields of its own"},
      {"inner.", "exclude: \"inner.\" names no field of t.M"},
      {"by_key.key", "exclude: \"by_key.key\" names no field of t.M"},
      {"extra", "exclude: \"extra\" names no field of t.M"},
  };
  for (const auto& row : rows) {
    const absl::Status status = internal::CanonicalMessage(*Parse(""), {row.path}).status();
    EXPECT_EQ(status.message(), row.message) << row.path;
  }
}

TEST_F(FingerprintProtoTest, DepthIsBounded) {
  const auto nested = [](int levels) {
    std::string text = "i32: 1";
    for (int i = 1; i < levels; ++i) text = "inner {" + text + "}";
    return text;
  };
  EXPECT_TRUE(internal::CanonicalMessage(*Parse(nested(100)), {}).ok());
  EXPECT_EQ(internal::CanonicalMessage(*Parse(nested(101)), {}).status().message(),
            "the message has more than 100 levels");
}

TEST_F(FingerprintProtoTest, AnUnreadableAnyIsRefused) {
  google::protobuf::Any any;
  any.set_type_url("type.googleapis.com/idempotency.v1.Operation");
  any.set_value("\xff");
  EXPECT_EQ(FingerprintMessage("m", "r", any).status().message(),
            "a google.protobuf.Any holds no idempotency.v1.Operation");
  any.clear_type_url();
  EXPECT_FALSE(FingerprintMessage("m", "r", any).ok());
  EXPECT_FALSE(FingerprintMessage("m", "r", google::protobuf::Any(), {.exclude = {"value"}}).ok());
}

// What callers have: generated messages, with labels in a map.
TEST_F(FingerprintProtoTest, GeneratedAndDynamicMessagesAgree) {
  v1::ReserveRequest request;
  request.mutable_id()->set_key("k");
  for (int i = 0; i < 50; ++i) (*request.mutable_labels())["l" + std::to_string(i)] = "v";
  DynamicMessageFactory factory;
  const std::unique_ptr<Message> dynamic(
      factory.GetPrototype(v1::ReserveRequest::descriptor())->New());
  ASSERT_TRUE(dynamic->ParseFromString(request.SerializeAsString()));
  const auto a = FingerprintMessage("m", "r", request);
  const auto b = FingerprintMessage("m", "r", *dynamic);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*a, *b);
  EXPECT_EQ(a->algorithm, "sha256/proto-1");
}

}  // namespace
}  // namespace idempotency
