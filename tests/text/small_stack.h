// Work on a stack as small as those of the threads that serve clients.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

#include "base/thread_pool.h"

namespace sluice::text {

#ifdef SLUICE_SANITIZED
inline constexpr std::size_t kFrames = 8;  // the sanitizers' frames are that much larger
#else
inline constexpr std::size_t kFrames = 1;
#endif

/// Calls `work` on a thread with such a stack.
template <class Work>
void on_small_stack(Work work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kFrames * kThreadStackBytes), 0);
  pthread_t thread;
  const auto start = [](void* of) -> void* {
    (*static_cast<Work*>(of))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, start, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace sluice::text
