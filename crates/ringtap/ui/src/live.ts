// What changes by itself: the status that the server sends once a second, and answers that are asked for again.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, addressWithToken, get, type Status } from "./api";

export type Connection = "connecting" | "live" | "lost";

/** Follows the server's events; a connection that is lost is made again. */
export function useStatus(): { status: Status | null; connection: Connection; refused: boolean; retry: () => void } {
  const [status, setStatus] = useState<Status | null>(null);
  const [connection, setConnection] = useState<Connection>("connecting");
  const [refused, setRefused] = useState(false);
  const [attempt, setAttempt] = useState(0);

  useEffect(() => {
    let events: EventSource | null = null;
    let again: ReturnType<typeof setTimeout> | undefined;
    let ended = false;
    const connect = async () => {
      try {
        // An EventSource does not say why it was refused, so this is asked for first.
        setStatus(await get<Status>("status"));
        setRefused(false);
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) {
          setRefused(true);
          return;
        }
        setConnection("lost");
        again = setTimeout(connect, 2000);
        return;
      }
      if (ended) return;
      events = new EventSource(addressWithToken("events"));
      events.addEventListener("status", (event) => {
        setStatus(JSON.parse((event as MessageEvent<string>).data) as Status);
        setConnection("live");
      });
      events.onerror = () => {
        events?.close();
        setConnection("lost");
        if (!ended) again = setTimeout(connect, 2000);
      };
    };
    void connect();
    return () => {
      ended = true;
      clearTimeout(again);
      events?.close();
    };
  }, [attempt]);

  return { status, connection, refused, retry: () => setAttempt(attempt + 1) };
}

export interface Answer<T> {
  value: T | null;
  error: ApiError | null;
  loading: boolean;
}

/**
 * Asks for `path` now and again every `every` milliseconds (0: once). The value stays until there is a newer one, so
 * that tables do not flicker.
 */
export function useAnswer<T>(
  path: string,
  parameters: Record<string, string | number | boolean | undefined> = {},
  every = 2000,
): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T>>({ value: null, error: null, loading: true });
  const key = JSON.stringify([path, parameters, every]);
  const shown = useRef("");

  useEffect(() => {
    const control = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    if (shown.current !== path) {
      shown.current = path;
      setAnswer({ value: null, error: null, loading: true });
    }
    const ask = async () => {
      try {
        if (!document.hidden) {
          const value = await get<T>(path, parameters, control.signal);
          setAnswer({ value, error: null, loading: false });
        }
      } catch (error) {
        if (control.signal.aborted) return;
        const told = error instanceof ApiError ? error : new ApiError(0, "the server does not answer", null);
        setAnswer((last) => ({ value: last.value, error: told, loading: false }));
      }
      if (every > 0 && !control.signal.aborted) timer = setTimeout(ask, every);
    };
    void ask();
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [key]);

  return answer;
}
