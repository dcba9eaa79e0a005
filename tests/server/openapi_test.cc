// The description of the API is true: what it lists is there, and what is there is listed.
#include <fstream>
#include <iterator>

#include "server/folder.h"
#include "server/served.h"

namespace sluice::server {
namespace {

std::string described() {
  std::ifstream in(SLUICE_SOURCE_DIR "/docs/openapi.json");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string with_id(std::string path) {
  const std::size_t at = path.find("{id}");
  if (at != std::string::npos) path.replace(at, 4, "nothing");
  return path;
}

TEST(TheDescription, IsServedAndTrue) {
  const Folder folder;
  ServerOptions options = options_for_tests();
  options.state_folder = folder.path();
  const auto server = start(options);
  ASSERT_NE(server, nullptr);
  const Answered served = get(server->port(), "/openapi.json");
  EXPECT_EQ(served.body, described());
  const TestJson description = served.json();
  for (const auto& [path, methods] : description["paths"].items()) {
    for (const std::string method : {"get", "post", "delete", "put"}) {
      std::string name = method;
      for (char& c : name) c = static_cast<char>(c - 'a' + 'A');
      const Answered answer =
          ask(server->port(), name, with_id(path), method == "post" ? "{}" : "");
      if (!methods.contains(method)) {
        EXPECT_TRUE(answer.status == 405 || answer.status == 404) << name << path << answer.status;
        continue;
      }
      EXPECT_NE(answer.status, 405) << name << " " << path;
      EXPECT_EQ(answer.body.find("nothing at this path"), std::string::npos) << path;
      EXPECT_TRUE(methods[method]["responses"].contains(std::to_string(answer.status)))
          << name << " " << path << " " << answer.status;
    }
  }
}

TEST(TheDescription, HasEveryFieldThatIsTaken) {
  const TestJson schemas = TestJson::parse(described())["components"]["schemas"];
  const auto server = start(options_for_tests());
  ASSERT_NE(server, nullptr);
  for (const auto& [path, name] :
       std::vector<std::pair<std::string, std::string>>{{"/v1/chat/completions", "ChatRequest"},
                                                        {"/v1/completions", "CompletionRequest"},
                                                        {"/v1/messages", "MessagesRequest"}}) {
    const TestJson& known = schemas[name]["properties"];
    EXPECT_GT(known.size(), 10u);
    for (const auto& [field, schema] : known.items()) {
      // A field that is known is never called unknown.
      const Answered answer = post(server->port(), path, {{"model", "k3-nano"}, {field, "\u0001"}});
      EXPECT_EQ(answer.body.find("unknown_parameter"), std::string::npos) << path << field;
    }
    EXPECT_EQ(schemas[name]["additionalProperties"], false);
  }
}

}  // namespace
}  // namespace sluice::server
