// The build has fixed file names, so that the server embeds a known list of files.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  build: {
    target: "es2022",
    modulePreload: false,
    // A data: URL would need an exception in the Content-Security-Policy.
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "app.js",
        assetFileNames: "app[extname]",
      },
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8877" } },
});
