// Asserts where only our own code can be wrong, in every build type. Input is never checked with
// these: input that is wrong is an Error (result.h).
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

/// Ends the process when `condition` is false: a bug in Sluice, never a fault of its input.
#define SLUICE_CHECK(condition)                                                                 \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      fmt::print(stderr, "{}:{}: internal check failed: {}\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                             \
    }                                                                                           \
  } while (false)
