import { render } from "preact";
import { takeToken } from "./api";
import { App } from "./app";
import "./style.css";

takeToken();
const place = document.getElementById("app");
if (place) render(<App />, place);
