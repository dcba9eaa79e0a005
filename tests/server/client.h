// A client of few words: writes what a test wants to be written, and reads what comes.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::server {

using TestJson = nlohmann::ordered_json;

struct Answered {
  int status = 0;                              ///< 0: none came
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;                            ///< chunks joined

  TestJson json() const { return TestJson::parse(body); }
  /// The data of server-sent events, but for [DONE].
  std::vector<TestJson> events() const;
};

class Client {
 public:
  static constexpr std::uint32_t kThisMachine = 0x7f000001;  // 127.0.0.1
  // For what comes in a moment, unless the machine is slow or a sanitizer makes it so.
#ifdef SLUICE_SANITIZED
  static constexpr std::chrono::seconds kPatience{600};
#else
  static constexpr std::chrono::seconds kPatience{60};
#endif

  /// `from`: the client's own address, one of 127.0.0.0/8.
  explicit Client(int port, std::uint32_t from = kThisMachine);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void write(std::string_view bytes);
  void half_close();
  /// False if it did not come in time, or the server hung up before.
  bool wait_for(std::string_view text, std::chrono::seconds patience = kPatience);
  /// All that came until the server hung up; false if it did not.
  bool read_to_end(std::chrono::seconds patience = kPatience);
  /// Whether the server has hung up.
  bool is_closed();
  const std::string& received() const { return received_; }

 private:
  bool fill(std::chrono::steady_clock::time_point deadline);

  int socket_;
  bool closed_ = false;
  std::string received_;
};

using TestHeaders = std::map<std::string, std::string>;

/// A request as it goes over the wire, with Connection: close.
std::string wire(const std::string& method, const std::string& path, const std::string& body = {},
                 const TestHeaders& headers = {});

Answered parse_answer(const std::string& received);

/// One request on its own connection.
Answered ask(int port, const std::string& method, const std::string& path,
             const std::string& body = {}, const TestHeaders& headers = {});
Answered post(int port, const std::string& path, const TestJson& body);
Answered get(int port, const std::string& path);
/// A logit_bias for k3-nano with which no answer ends before its last token.
TestJson never_ending();
/// Whether a request is answered with 200, if whoever is turned away, or hung up on for having been
/// slow, comes again: on a busy machine anybody may be slow.
bool is_served_at_last(int port, const std::string& request);
/// The id of a file for batches with this content.
std::string upload(int port, const std::string& content);

}  // namespace sluice::server
