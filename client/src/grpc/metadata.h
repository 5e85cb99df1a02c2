// Metadata of calls: what can be sent, and what is stored.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_CLIENT_SRC_GRPC_METADATA_H_
#define IDEMPOTENCY_CLIENT_SRC_GRPC_METADATA_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "google/protobuf/message.h"
#include "grpcpp/grpcpp.h"
#include "idempotency/grpc.h"

namespace idempotency::internal {

using ReceivedMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// Whether gRPC may be given it: it ends the process where it is given anything else. Names that
// gRPC keeps for itself count as illegal.
bool IsLegal(std::string_view name, std::string_view value);

// Of a finished call, without what gRPC keeps for itself.
Metadata ToMetadata(const ReceivedMetadata& received);

// The first value of that name; empty where there is none.
std::string FindValue(const ReceivedMetadata& received, std::string_view name);

// Why `method` cannot be the full name of a method that takes `request` and returns `response`, as
// far as this process knows the method; nullopt: it can.
std::optional<std::string> WhatIsWrongWithMethod(std::string_view method,
                                                 const google::protobuf::Message& request,
                                                 const google::protobuf::Message& response);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_GRPC_METADATA_H_
