// The entry: colours first, then the page.
import "./styles/base.css";
import "./styles/frame.css";
import "./styles/parts.css";
import "./styles/lists.css";
import "./styles/inbox.css";
import "./styles/evidence.css";
import "./styles/board.css";
import "./styles/task.css";
import "./styles/output.css";
import "./styles/transcript.css";
import "./styles/health.css";
import { QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";
import { client } from "./api/hooks";
import { App } from "./app";
import { applyTheme } from "./ui/theme";

applyTheme();
createRoot(document.getElementById("root")!).render(
  <QueryClientProvider client={client}>
    <App />
  </QueryClientProvider>,
);
