/* gcc -std=c11 main.c -Iout -Lout -lcircle -lm -Wl,--gc-sections -o main */
#include <stdio.h>

#include "circle.h"

int main(void) {
  const float points[3][2] = {{0.0f, 0.0f}, {0.5f, -0.5f}, {1.5f, 1.5f}};
  float inside[3];
  circle_context *context = circle_create(circle_workspace_size(3));
  if (context == NULL) return 1;
  const int status = circle(context, 3, &points[0][0], inside);
  if (status != CIRCLE_OK) {
    fprintf(stderr, "circle: %s\n", circle_error(status));
    return 1;
  }
  for (int i = 0; i < 3; ++i) printf("%.4f\n", inside[i]);
  circle_destroy(context);
  return 0;
}
