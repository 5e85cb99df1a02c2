// Recognises keys that should not be keys: they are logged nowhere, but they are stored, listed
// to operators and handed to providers, which is no place for personal data or credentials.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_KEY_CHECK_H_
#define IDEMPOTENCY_SERVICE_KEY_CHECK_H_

#include <string_view>

namespace idempotency::service {

// What `text` looks like, as words for a person ("an e-mail address"); empty where it looks
// like nothing of the kind. It errs on the side of letting keys through.
std::string_view LooksSensitive(std::string_view text);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_KEY_CHECK_H_
