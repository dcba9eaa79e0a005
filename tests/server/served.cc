#include "server/served.h"

#include <thread>

namespace sluice::server {
ServerOptions options_for_tests() {
  ServerOptions options;
  options.host.engine.model = kNano;
  options.host.engine.threads = 1;
  options.host.engine.context = 4096;
  options.host.engine.ram = std::uint64_t{512} << 20;
  options.port = 0;
  options.host.queue = 2;
  options.limits.head = options.limits.body = options.limits.write = std::chrono::hours(1);
  return options;
}

std::unique_ptr<Server> start(const ServerOptions& options) {
  auto server = Server::start(options);
  EXPECT_TRUE(server) << server.error().message;
  return server ? std::move(*server) : nullptr;
}

TestJson chat(const std::string& text, const TestJson& more) {
  TestJson body = {{"model", "k3-nano"},
                   {"messages", {{{"role", "user"}, {"content", text}}}},
                   {"max_completion_tokens", 24},
                   {"seed", 7}};
  body.update(more);
  return body;
}

TestJson complete(const std::string& prompt, const TestJson& more) {
  TestJson body = {
      {"model", "k3-nano"}, {"prompt", prompt}, {"max_tokens", 24}, {"temperature", 0}};
  body.update(more);
  return body;
}

LongRequest::LongRequest(int port) : client_(port) {
  TestJson body = complete(
      kPrompt, {{"max_tokens", 4000}, {"n", 16}, {"stream", true}, {"logit_bias", never_ending()}});
  body["prompt"] = std::vector<std::string>(128, kPrompt);  // no machine is done with it in time
  client_.write(wire("POST", "/v1/completions", body.dump()));
  EXPECT_TRUE(client_.wait_for("data: "));
}

void wait_until_idle(int port) {
  for (int i = 0; i < 20'000; ++i) {
    const TestJson status = get(port, "/v1/status").json();
    if (status["phase"] == "idle" && status["queued"] == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "the engine still works";
}

std::size_t tokens_so_far(const TestJson& request) {
  return request["choice"].get<std::size_t>() * request["max_tokens"].get<std::size_t>() +
         request["tokens"].get<std::size_t>();
}

std::string text_of(const Answered& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.status == 200 ? answer.json()["choices"][0]["text"].get<std::string>() : "";
}

std::size_t cached(const TestJson& answer) {
  return answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::size_t>();
}

}  // namespace sluice::server
