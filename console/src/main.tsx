// The console of Stepwell: a page that shows runs and steers them.
import { render } from "preact";
import { App } from "./ui/app.tsx";

render(<App />, document.getElementById("app")!);
