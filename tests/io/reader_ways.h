// Every way of reading that the tests of the Reader interface go through.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/make_reader.h"

namespace sluice::io::testing {

struct Way {
  IoMode mode;
  bool direct;
};

inline std::vector<Way> all_ways() {
  return {{IoMode::pread, true},
          {IoMode::pread, false},
          {IoMode::mmap, false},
          {IoMode::uring, true},
          {IoMode::uring, false}};
}

inline std::vector<Way> direct_ways() { return {{IoMode::pread, true}, {IoMode::uring, true}}; }

inline std::string way_name(const ::testing::TestParamInfo<Way>& info) {
  return std::string(name_of(info.param.mode)) + (info.param.direct ? "_direct" : "_buffered");
}

}  // namespace sluice::io::testing
