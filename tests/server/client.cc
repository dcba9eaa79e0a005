#include "server/client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace sluice::server {

std::vector<TestJson> Answered::events() const {
  std::vector<TestJson> events;
  for (std::size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
    const std::size_t end = body.find('\n', at);
    const std::string data = body.substr(at + 6, end - at - 6);
    if (data != "[DONE]") events.push_back(TestJson::parse(data));
    at = end;
  }
  return events;
}

Client::Client(int port, std::uint32_t from)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  const auto* const bytes = reinterpret_cast<const sockaddr*>(&address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(from);
  EXPECT_EQ(::bind(socket_, bytes, sizeof(address)), 0);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(kThisMachine);
  EXPECT_EQ(::connect(socket_, bytes, sizeof(address)), 0);
}

Client::~Client() { ::close(socket_); }

void Client::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void Client::half_close() { ::shutdown(socket_, SHUT_WR); }

bool Client::fill(std::chrono::steady_clock::time_point deadline) {
  if (closed_) return false;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  pollfd descriptor = {socket_, POLLIN, 0};
  if (left.count() <= 0 || ::poll(&descriptor, 1, static_cast<int>(left.count())) <= 0) {
    return false;
  }
  char room[4096];
  const ssize_t count = ::recv(socket_, room, sizeof(room), 0);
  if (count <= 0) {
    closed_ = true;
    return false;
  }
  received_.append(room, static_cast<std::size_t>(count));
  return true;
}

bool Client::wait_for(std::string_view text, std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (received_.find(text) == std::string::npos) {
    if (!fill(deadline)) return false;
  }
  return true;
}

bool Client::read_to_end(std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (fill(deadline)) continue;
  return closed_;
}

bool Client::is_closed() {
  fill(std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
  return closed_;
}

std::string wire(const std::string& method, const std::string& path, const std::string& body,
                 const TestHeaders& headers) {
  std::string text = fmt::format("{} {} HTTP/1.1\r\n", method, path);
  if (!headers.contains("Host")) text += "Host: 127.0.0.1\r\n";
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  if (!body.empty()) text += fmt::format("Content-Length: {}\r\n", body.size());
  return text + "Connection: close\r\n\r\n" + body;
}

Answered parse_answer(const std::string& received) {
  Answered answer;
  const std::size_t end = received.find("\r\n\r\n");
  if (end == std::string::npos || !received.starts_with("HTTP/1.1 ")) return answer;
  answer.status = std::stoi(received.substr(9, 3));
  for (std::size_t at = received.find("\r\n") + 2; at < end;) {
    const std::size_t line_end = received.find("\r\n", at);
    const std::size_t colon = received.find(": ", at);
    std::string name = received.substr(at, colon - at);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    answer.headers[name] = received.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  std::string rest = received.substr(end + 4);
  if (!answer.headers.contains("transfer-encoding")) {
    answer.body = rest;
    return answer;
  }
  while (!rest.empty()) {
    const std::size_t line = rest.find("\r\n");
    const std::size_t size = std::stoul(rest.substr(0, line), nullptr, 16);
    if (size == 0) return answer;
    answer.body += rest.substr(line + 2, size);
    rest.erase(0, line + 2 + size + 2);
  }
  ADD_FAILURE() << "the last chunk is missing";
  return answer;
}

Answered ask(int port, const std::string& method, const std::string& path, const std::string& body,
             const TestHeaders& headers) {
  Client client(port);
  client.write(wire(method, path, body, headers));
  EXPECT_TRUE(client.read_to_end());
  return parse_answer(client.received());
}

Answered post(int port, const std::string& path, const TestJson& body) {
  return ask(port, "POST", path, body.dump());
}

Answered get(int port, const std::string& path) { return ask(port, "GET", path); }

TestJson never_ending() {
  TestJson bias = TestJson::object();
  for (int id = 3840; id < 4096; ++id) bias[std::to_string(id)] = -100;
  return bias;
}

bool is_served_at_last(int port, const std::string& request) {
  const auto deadline = std::chrono::steady_clock::now() + Client::kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    Client client(port);
    client.write(request);
    if (client.read_to_end() && parse_answer(client.received()).status == 200) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::string upload(int port, const std::string& content) {
  const std::string body =
      "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--b\r\n"
      "Content-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n\r\n" +
      content + "\r\n--b--\r\n";
  const Answered answer =
      ask(port, "POST", "/v1/files", body, {{"Content-Type", "multipart/form-data; boundary=b"}});
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.json().value("id", "");
}

}  // namespace sluice::server
