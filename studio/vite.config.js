import { defineConfig } from "vite";

// One script and one style with fixed names: the build is committed, and the server knows them.
export default defineConfig({
  base: "/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../rlver_gym/studio/static",
    emptyOutDir: true,
    modulePreload: false,
    target: "es2022",
    rollupOptions: {
      output: { entryFileNames: "studio.js", assetFileNames: "studio[extname]" },
    },
  },
});
