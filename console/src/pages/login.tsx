// Logging in by a token. Who opens the page by `stepwell console` brings a code and doesn't come here.
import { useState } from "preact/hooks";
import { logInByToken } from "../api/session.ts";

export function LoginPage({ codeRefused }: { codeRefused: boolean }) {
  const [token, setToken] = useState("");
  const [failed, setFailed] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      await logInByToken(token.trim());
    } catch (error) {
      const refused = (error as Error).message === "refused";
      setFailed(
        refused
          ? "The server refuses this token. It must be one that the server knows, with the scope run:read."
          : `The server can't be asked: ${(error as Error).message}`,
      );
    }
  };
  return (
    <main class="login" id="main">
      <h1>
        <img src="/assets/icon.svg" alt="" width="32" height="32" /> Stepwell
      </h1>
      {codeRefused && !failed && (
        <p class="problem" role="alert">
          The link that opened this page was used before, or is older than a minute. Open a new one:{" "}
          <code>stepwell console</code>
        </p>
      )}
      <p>
        On the server's machine, <code>stepwell console</code> opens this page without a token.
      </p>
      <form onSubmit={(event) => void submit(event)}>
        <label class="field">
          <span>Token</span>
          <input
            type="password"
            autocomplete="off"
            value={token}
            required
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        {failed && (
          <p class="problem" role="alert">
            {failed}
          </p>
        )}
        <button type="submit" class="primary">
          Log in
        </button>
      </form>
    </main>
  );
}
