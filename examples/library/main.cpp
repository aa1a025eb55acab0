// g++ -std=c++20 main.cpp -Iout -Lout -lcircle -lm -Wl,--gc-sections -o main
#include <array>
#include <cstdio>

#include "circle.hpp"

int main() {
  const std::array<float, 6> points = {0.0f, 0.0f, 0.5f, -0.5f, 1.5f, 1.5f};
  std::array<float, 3> inside;
  circle_library::context context(circle_workspace_size(3));
  context.circle(3, points, inside);
  for (const float probability : inside) std::printf("%.4f\n", probability);
  try {
    context.circle(4, points, inside);
  } catch (const circle_library::error &error) {
    std::printf("%s\n", error.what());
  }
}
