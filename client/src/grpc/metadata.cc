#include "client/src/grpc/metadata.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace idempotency::internal {
namespace {

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

bool IsValueByte(char c) { return c >= 0x20 && c <= 0x7e; }

bool IsReserved(std::string_view name) { return name.starts_with("grpc-"); }

std::string_view View(const grpc::string_ref& text) { return {text.data(), text.size()}; }

}  // namespace

bool IsLegal(std::string_view name, std::string_view value) {
  if (name.empty() || IsReserved(name) || !std::all_of(name.begin(), name.end(), IsNameByte)) {
    return false;
  }
  return name.ends_with("-bin") || std::all_of(value.begin(), value.end(), IsValueByte);
}

Metadata ToMetadata(const ReceivedMetadata& received) {
  Metadata metadata;
  for (const auto& [name, value] : received) {
    if (!IsReserved(View(name))) metadata.emplace_back(View(name), View(value));
  }
  return metadata;
}

std::string FindValue(const ReceivedMetadata& received, std::string_view name) {
  const auto found = received.find(grpc::string_ref(name.data(), name.size()));
  return found == received.end() ? std::string() : std::string(View(found->second));
}

std::optional<std::string> WhatIsWrongWithMethod(std::string_view method,
                                                 const google::protobuf::Message& request,
                                                 const google::protobuf::Message& response) {
  const size_t slash = method.rfind('/');
  const bool has_parts = slash != std::string_view::npos && slash > 1 && slash + 1 < method.size();
  if (!method.starts_with('/') || !has_parts) {
    return "method: not of the form /package.Service/Method; give the method's full name";
  }
  std::string name(method.substr(1));
  name[slash - 1] = '.';
  const google::protobuf::MethodDescriptor* known =
      request.GetDescriptor()->file()->pool()->FindMethodByName(name);
  const bool fits = known == nullptr || (known->input_type() == request.GetDescriptor() &&
                                         known->output_type() == response.GetDescriptor());
  if (fits) return std::nullopt;
  return absl::StrCat("method: ", name, " takes ", known->input_type()->full_name(),
                      " and returns ", known->output_type()->full_name(),
                      ", unlike the call; give the name of the method that is called");
}

}  // namespace idempotency::internal
