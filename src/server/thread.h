// A thread with a stack of known size.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <functional>

#include "base/result.h"

namespace sluice::server {

/// Joined when it goes; whoever owns it must have told it to end.
class Thread {
 public:
  static Result<Thread> start(std::size_t stack_bytes, std::function<void()> work);
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&&) = delete;
  ~Thread();

 private:
  explicit Thread(pthread_t handle) : handle_(handle), runs_(true) {}

  pthread_t handle_;
  bool runs_;
};

}  // namespace sluice::server
