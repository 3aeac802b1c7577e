#include "kit.h"
const struct check connections[] = { { NULL, NULL } };
