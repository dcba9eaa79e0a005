// For threads that work for clients: what is thrown in spite of everything must cost one request.
#pragma once

#include <exception>
#include <optional>
#include <string>

namespace sluice::server {

/// Does `work`, and says what it throws, if it does. Nothing of ours should; but a library may
/// where a check was forgotten, and so does memory that cannot be had.
template <class Work>
std::optional<std::string> thrown_by(Work work) {
  try {
    work();
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace sluice::server
