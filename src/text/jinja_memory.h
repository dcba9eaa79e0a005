// What the values of chat templates take of memory, counted while it is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sluice::text::jinja {

/// Bytes that this thread has taken through Counted, less those that it has freed. Only differences
/// tell something: what one thread made may be freed on another.
inline std::int64_t& held_bytes() {
  static thread_local std::int64_t held = 0;
  return held;
}

/// The standard allocator, with that tally.
template <class T>
struct Counted : std::allocator<T> {
  Counted() = default;
  template <class Other>
  Counted(const Counted<Other>&) {}  // NOLINT(google-explicit-constructor): allocators convert
  template <class Other>
  struct rebind {  // NOLINT(readability-identifier-naming): the standard's name
    using other = Counted<Other>;
  };

  T* allocate(std::size_t count) {
    T* const made = std::allocator<T>::allocate(count);
    held_bytes() += static_cast<std::int64_t>(count * sizeof(T));
    return made;
  }
  void deallocate(T* made, std::size_t count) {
    held_bytes() -= static_cast<std::int64_t>(count * sizeof(T));
    std::allocator<T>::deallocate(made, count);
  }
};

}  // namespace sluice::text::jinja
