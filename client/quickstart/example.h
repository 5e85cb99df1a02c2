// What the programs of the quickstart share: flags, output, and an end with a reason.
#ifndef IDEMPOTENCY_CLIENT_QUICKSTART_EXAMPLE_H_
#define IDEMPOTENCY_CLIENT_QUICKSTART_EXAMPLE_H_

#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

// The value of --name=value, or what it is without.
inline std::string Flag(int argc, char** argv, const std::string& name,
                        const std::string& without) {
  const std::string start = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(start)) return std::string(argument.substr(start.size()));
  }
  return without;
}

inline void Say(const std::string& line) { std::cout << line << std::endl; }

// Ends the program where what it promises does not hold.
inline void Require(bool holds, const std::string& what) {
  if (holds) return;
  std::cerr << "NOT TRUE: " << what << std::endl;
  std::exit(1);
}

#endif  // IDEMPOTENCY_CLIENT_QUICKSTART_EXAMPLE_H_
