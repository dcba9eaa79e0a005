#include "server/thread.h"

#include <memory>
#include <system_error>
#include <utility>

namespace sluice::server {

Result<Thread> Thread::start(std::size_t stack_bytes, std::function<void()> work) {
  auto own = std::make_unique<std::function<void()>>(std::move(work));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_t handle;
  const int error = pthread_create(
      &handle, &attributes,
      [](void* start) -> void* {
        const std::unique_ptr<std::function<void()>> mine(
            static_cast<std::function<void()>*>(start));
        (*mine)();
        return nullptr;
      },
      own.get());
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    return fail(ErrorKind::memory, "no thread can be started: {}",
                std::generic_category().message(error));
  }
  static_cast<void>(own.release());
  return Thread(handle);
}

Thread::Thread(Thread&& other) noexcept
    : handle_(other.handle_), runs_(std::exchange(other.runs_, false)) {}

Thread::~Thread() {
  if (runs_) pthread_join(handle_, nullptr);
}

}  // namespace sluice::server
