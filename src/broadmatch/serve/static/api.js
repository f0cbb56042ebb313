// Requests to the server that this page came from, with the API key of this tab if one was given.

const KEY = "broadmatch-key";

export const apiKey = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

// What went wrong, in the server's own sentence.
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
    this.locked = status === 401 || status === 403; // another key may open it
  }
}

// call("POST", "/v1/studio/plan", { text }, signal): the answer's JSON.
export async function call(method, path, body, signal) {
  const answer = await send(method, path, body, signal);
  return answer.json();
}

export async function send(method, path, body, signal) {
  const headers = apiKey.get() ? { Authorization: `Bearer ${apiKey.get()}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not answer; is it still running?");
  }
  if (answer.ok) return answer;
  if (answer.status === 401) dispatchEvent(new CustomEvent("unauthorized"));
  const problem = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, problem.detail ?? `The server answered ${answer.status}.`);
}
