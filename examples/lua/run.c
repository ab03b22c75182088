/* Runs the Lua program given as the first argument and prints what it returns. */

#include <stdio.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: lua PROGRAM\n");
        return 2;
    }
    lua_State *state = luaL_newstate();
    luaL_openlibs(state);
    if (luaL_dostring(state, argv[1]) != LUA_OK) {
        fprintf(stderr, "%s\n", lua_tostring(state, -1));
        return 1;
    }
    printf("%s\n", luaL_tolstring(state, -1, NULL));
    lua_close(state);
    return 0;
}
