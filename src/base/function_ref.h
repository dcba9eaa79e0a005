// A borrowed callable: for parameters that are only called during the call.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace sluice {

template <class Signature>
class FunctionRef;

/// Refers to a callable without owning it; the callable must outlive the call it is passed to.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& callable)  // NOLINT(google-explicit-constructor): call sites pass lambdas
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace sluice
