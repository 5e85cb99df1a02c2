// Colour, for a terminal: the words that say how an operation stands catch the eye. Pure.
#ifndef IDEMPOTENCY_CLIENT_CTL_COLOR_H_
#define IDEMPOTENCY_CLIENT_CTL_COLOR_H_

#include <string>
#include <string_view>

namespace idempotency::ctl {

// `text` with the names of states and outcomes in colour, where they stand as words of their own:
// yellow is open and unknown, red was refused, cyan is under way, green has ended well, faint is
// gone. Nothing else changes, so that what lines up still does on a terminal.
std::string Colored(std::string_view text);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_COLOR_H_
