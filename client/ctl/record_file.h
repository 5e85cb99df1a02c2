// The file that export writes and import reads:
//
//   file := "idempotency records 1\n" { length part }
//     length := 4 bytes, lowest first
//     part   := a serialized idempotency.transfer.v1.ExportRecordsResponse
//
// The parts are a header, chunks and a trailer, in this order: what ends before the trailer was cut
// off. Whether the records are those that were exported is for the server to say, which has to
// trust nobody for it; each part of the stream has a digest.
//
// Thread safety: none; one caller at a time.
#ifndef IDEMPOTENCY_CLIENT_CTL_RECORD_FILE_H_
#define IDEMPOTENCY_CLIENT_CTL_RECORD_FILE_H_

#include <fstream>
#include <istream>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "idempotency/transfer/v1/transfer_service.pb.h"

namespace idempotency::ctl {

// A chunk ends with the record that brings it over half a megabyte; a record has at most about 3
// MiB.
inline constexpr size_t kMaxPartBytes = size_t{16} * 1024 * 1024;

// Has its name only once it is whole and synced, and never takes the place of another file. Nobody
// but its owner can read it.
class RecordFileWriter {
 public:
  // "-" is standard output, which must outlive it.
  RecordFileWriter(std::string path, std::ostream* standard_output);
  // What has not got its name is removed.
  ~RecordFileWriter();
  RecordFileWriter(const RecordFileWriter&) = delete;
  RecordFileWriter& operator=(const RecordFileWriter&) = delete;

  // Each: empty where it worked, else one sentence; then nothing more is to be written.
  std::string Open();
  std::string Write(const transfer::v1::ExportRecordsResponse& part);
  std::string Finish();

 private:
  std::string Append(std::string_view bytes);

  const std::string path_;
  const std::string partial_path_;
  std::ostream* const standard_output_;
  int fd_ = -1;
};

class RecordFileReader {
 public:
  // "-" is standard input, which must outlive it.
  RecordFileReader(std::string path, std::istream* standard_input);

  // Empty where it begins like one, else one sentence.
  std::string Open();
  // Whether there is another part; behind the trailer there is none.
  bool Next(transfer::v1::ExportRecordsResponse* part);
  // Once there is none: one sentence where that is not the end of a whole file.
  const std::string& error() const { return error_; }

 private:
  bool Read(size_t size, std::string* bytes);
  bool Fail(std::string_view what);

  const std::string path_;
  const std::string name_;  // in sentences
  std::istream* const standard_input_;
  std::ifstream file_;
  std::istream* in_ = nullptr;
  bool at_trailer_ = false;
  std::string error_;
};

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_RECORD_FILE_H_
