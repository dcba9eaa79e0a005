#include "text/jinja.h"

#include <utility>

#include "text/jinja_renderer.h"

namespace sluice::text::jinja {

Result<Template> Template::parse(std::string_view source) {
  SLUICE_ASSIGN(NodePtr root, jinja::parse(source));
  return Template(std::move(root));
}

Result<Text> Template::render(const Dictionary& names, const std::optional<std::tm>& now) const {
  return Renderer(names, now).render(*root_);
}

}  // namespace sluice::text::jinja
