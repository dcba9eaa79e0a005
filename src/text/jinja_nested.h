// How deep something recursive is.
#pragma once

namespace sluice::text::jinja {

/// Counts one level for as long as it lives. `depth` must outlive it.
class Nested {
 public:
  explicit Nested(int& depth) : depth_(depth) { ++depth_; }
  ~Nested() { --depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  int& depth_;
};

}  // namespace sluice::text::jinja
