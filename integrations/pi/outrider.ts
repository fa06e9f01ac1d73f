/**
 * Outrider in pi: the tool `subagent`, the command `/toolkit`, and the delegation policy.
 *
 * All of it is done by the command `outrider`. `outrider pi install` copies this file to where pi
 * finds it and writes into it how the command is started; `outrider pi uninstall` removes it.
 */

import { spawn } from "node:child_process";
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";

const OUTRIDER: string[] = ["outrider"];
const REPORTS = [
  "agents", "models", "runs", "logs", "activity", "modules", "lsp", "config", "doctor", "help",
];
const MAX_COLLAPSED_LINES = 8;
const MAX_STEPS = 5;
const MAX_STDERR = 4_000;
const KILL_AFTER_MS = 20_000;
const PARAMETERS = {
  type: "object",
  properties: {
    agent: { type: "string", minLength: 1, description: "Who does it." },
    task: { type: "string", minLength: 1, description: "What to do." },
    output_schema: {
      type: "object",
      description: "JSON Schema of the result. Leave out for text.",
    },
  },
  required: ["agent", "task"],
  additionalProperties: false,
};
const DESCRIPTION =
  "Delegate one focused task to a subagent. It works in its own process and context, sees nothing " +
  "of this conversation, and returns only its result, so say all it needs to know. It can't ask " +
  "back or delegate. With `output_schema` it returns data that fits the schema.";

type Item = { type: "text"; text: string } | { type: "toolCall"; name: string; args: any };
type Usage = { input: number; output: number; cost: number; turns: number; costKnown?: boolean };
type Run = {
  agent: string;
  outcome: string;
  output?: string;
  error?: string;
  usage: Usage;
  receipt?: { toolCalls?: number };
  changes?: { state: string; added: number; removed: number; files: unknown[] };
};
type Details = {
  mode: string;
  runId?: string;
  results: Run[];
  error?: { code: string; message: string };
  streaming?: { displayItems: Item[]; usage: Usage; turnCount: number };
};
type ToolResult = { content: { type: "text"; text: string }[]; details: Details };
type Ended = { code: number | null; stderr: string; problem?: string };

const running = new Set<() => void>();

/** Runs `outrider`, hands each line of its stdout to `onLine`, and says how it ended. */
function outrider(
  args: string[],
  cwd: string,
  onLine: (line: string) => void,
  options: { stdin?: string; signal?: AbortSignal } = {},
): Promise<Ended> {
  return new Promise((resolve) => {
    const [program, ...first] = OUTRIDER;
    const child = spawn(program, [...first, ...args], { cwd, stdio: ["pipe", "pipe", "pipe"] });
    let rest = "";
    let stderr = "";
    let problem: string | undefined;
    let timer: NodeJS.Timeout | undefined;
    const stop = () => {
      // It ends its child first, and then tells how far that came.
      child.kill("SIGTERM");
      timer ??= setTimeout(() => child.kill("SIGKILL"), KILL_AFTER_MS);
    };
    running.add(stop);
    child.stdin.on("error", () => {}); // it may end before it has read everything
    child.stdin.end(options.stdin ?? "");
    child.stdout.setEncoding("utf8").on("data", (data: string) => {
      const lines = (rest + data).split("\n");
      rest = lines.pop() ?? "";
      lines.forEach(onLine);
    });
    child.stderr.setEncoding("utf8").on("data", (data: string) => {
      stderr = (stderr + data).slice(-MAX_STDERR);
    });
    child.on("error", (error) => {
      problem = `\`${OUTRIDER.join(" ")}\` can't be started: ${error.message}. `;
      problem += "Run `outrider pi install` again.";
    });
    child.on("close", (code) => {
      running.delete(stop);
      options.signal?.removeEventListener("abort", stop);
      clearTimeout(timer);
      if (rest) onLine(rest);
      resolve({ code, stderr, problem });
    });
    if (options.signal?.aborted) stop();
    else options.signal?.addEventListener("abort", stop, { once: true });
  });
}

/** A refusal in the shape of any other result. */
function failed(message: string): ToolResult {
  const error = { code: "SUBAGENT_FAILED", message };
  return { content: [{ type: "text", text: message }], details: { mode: "single", results: [], error } };
}

/** Delegates, and hands each partial result to `onUpdate`. */
async function delegate(
  params: { agent: string; task: string; output_schema?: unknown },
  signal: AbortSignal | undefined,
  onUpdate: ((partial: ToolResult) => void) | undefined,
  cwd: string,
): Promise<ToolResult> {
  const schema = params.output_schema === undefined ? [] : ["--schema", JSON.stringify(params.output_schema)];
  const args = ["run", "--json", "--updates", ...schema, "--", params.agent, "-"];
  let result: ToolResult | undefined;
  const take = (line: string) => {
    try {
      const told = JSON.parse(line) as ToolResult;
      if (told.details.streaming) onUpdate?.(told);
      else result = told;
    } catch {
      // not a result: what ended the command is told below
    }
  };
  const ended = await outrider(args, cwd, take, { stdin: params.task, signal });
  if (result) return result;
  return failed(ended.problem ?? `outrider ended with exit code ${ended.code}: ${ended.stderr.trim()}`);
}

/** A text without control characters, so that it can't move the cursor or colour the screen. */
function plain(text: string): string {
  return text.replace(/\t/g, "  ").replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, "");
}

/** As much of a line as surely fits: a character that isn't ASCII may be two columns wide. */
function fit(line: string, width: number): string {
  let columns = 0;
  let end = 0;
  for (const char of line) {
    columns += char < "\u0080" ? 1 : 2;
    if (columns > width) return line.slice(0, end);
    end += char.length;
  }
  return line;
}

/** A line as several that fit. */
function wrapped(line: string, width: number): string[] {
  const lines: string[] = [];
  for (let rest = line; rest; ) {
    const head = fit(rest, width) || [...rest][0];
    lines.push(head);
    rest = rest.slice(head.length);
  }
  return lines.length ? lines : [""];
}

type Line = { text: string; colour: string; wraps?: boolean };

/** What pi draws: lines, each in one of the theme's colours. */
function drawn(lines: Line[], theme: any) {
  return {
    invalidate() {},
    render(width: number): string[] {
      return lines.flatMap(({ text, colour, wraps }) => {
        const parts = wraps ? wrapped(plain(text), width) : [fit(plain(text), width)];
        return parts.map((part) => theme.fg(colour, part));
      });
    },
  };
}

function firstLine(text: string): string {
  return text.trim().split("\n")[0] ?? "";
}

function spent(usage: Usage): string {
  const cost = usage.cost ? ` · $${usage.cost.toFixed(4)}` : "";
  return `${usage.input + usage.output} tokens${cost}`;
}

function step(item: Item): string {
  if (item.type === "text") return firstLine(item.text);
  const args = item.args ?? {};
  const shown = args.path ?? args.pattern ?? args.command ?? args.url ?? args.query ?? "";
  return `→ ${item.name} ${firstLine(String(shown))}`;
}

/** The lines of a run under way: its last steps, and how far it is. */
function progress(streaming: NonNullable<Details["streaming"]>): Line[] {
  const steps = streaming.displayItems.slice(-MAX_STEPS).map((item) => ({ text: step(item), colour: "dim" }));
  const turn = streaming.turnCount ? `turn ${streaming.turnCount}` : "starting";
  return [...steps, { text: `${turn} · ${spent(streaming.usage)}`, colour: "muted" }];
}

/** What a writer changed, what became of it, and the command that goes on. */
function changed(run: Run, runId: string | undefined): Line[] {
  if (!run.changes || run.changes.state === "none") return [];
  const { state, added, removed, files } = run.changes;
  const next: Record<string, string> = {
    pending: `not landed: outrider diff ${runId}`,
    landed: `landed: outrider undo ${runId} takes it back`,
  };
  const count = `${files.length} file${files.length === 1 ? "" : "s"}`;
  const text = `${count}, +${added} −${removed}, ${next[state] ?? state}`;
  return [{ text, colour: "warning", wraps: true }];
}

/** The lines of a result: how it ended, and its text. */
function report(result: ToolResult, expanded: boolean): Line[] {
  const run = result.details.results[0];
  const text = result.content.map((part) => part.text).join("\n");
  if (!run) return [{ text: `✗ ${text}`, colour: "error", wraps: true }];
  const done = run.outcome === "completed";
  const calls = run.receipt?.toolCalls ?? 0;
  const facts = [`${done ? "✓" : "✗"} ${run.agent}`, run.outcome, `${run.usage.turns} turns`];
  facts.push(`${calls} tool calls`, spent(run.usage), `run ${result.details.runId}`);
  const body = (done ? (run.output ?? text) : text).trimEnd().split("\n");
  const shown = expanded ? body : body.slice(0, MAX_COLLAPSED_LINES);
  const more = body.length - shown.length;
  const lines: Line[] = [{ text: facts.join(" · "), colour: done ? "success" : "error" }];
  lines.push(...shown.map((line) => ({ text: line, colour: "toolOutput", wraps: true })));
  if (more > 0) lines.push({ text: `… ${more} more lines`, colour: "muted" });
  return [...lines, ...changed(run, result.details.runId)];
}

/** What the project's settings say to a host: whether it may delegate, and the policy. */
type Host = { enabled: boolean; commands: boolean; policy: string; problem?: string };

async function readHost(cwd: string): Promise<Host> {
  let text = "";
  const ended = await outrider(["agents", "--json", "--cwd", cwd], cwd, (line) => {
    text += `${line}\n`;
  });
  try {
    return (JSON.parse(text) as { host: Host }).host;
  } catch {
    const problem = ended.problem ?? `outrider agents: ${ended.stderr.trim()}`;
    return { enabled: true, commands: true, policy: "", problem };
  }
}

async function toolkit(words: string, ctx: ExtensionContext, pi: ExtensionAPI): Promise<void> {
  const [name = "help", ...rest] = words.split(/\s+/).filter(Boolean);
  let text = `There is no report ${name}. Known reports: ${REPORTS.join(", ")}.`;
  let good = false;
  if (REPORTS.includes(name)) {
    text = "";
    const ended = await outrider([name, ...rest], ctx.cwd, (line) => {
      text += `${plain(line)}\n`;
    });
    good = ended.code === 0;
    text = (good ? text : (ended.problem ?? ended.stderr) || text).trimEnd();
  }
  // In the transcript of the session, and never in what the model reads.
  if (ctx.hasUI) ctx.ui.notify(text, good ? "info" : "warning");
  else pi.appendEntry("outrider-report", { report: name, text });
}

export default function (pi: ExtensionAPI) {
  // A subagent gets no subagents of its own, and asks for no reports.
  if (process.env.PI_SUBAGENT_CHILD === "1") return;
  let host: Promise<Host> | undefined;

  pi.registerTool({
    name: "subagent",
    label: "Subagent",
    description: DESCRIPTION,
    promptSnippet: "Delegate one focused task to a subagent in its own process",
    parameters: PARAMETERS as any,
    async execute(_id: string, params: any, signal: any, onUpdate: any, ctx: ExtensionContext) {
      return (await delegate(params, signal, onUpdate, ctx.cwd)) as any;
    },
    renderCall(args: any, theme: any) {
      const about = `${args.agent ?? "…"}: ${firstLine(args.task ?? "…")}`;
      return drawn([{ text: `subagent ${about}`, colour: "toolTitle" }], theme) as any;
    },
    renderResult(result: any, options: { expanded: boolean }, theme: any) {
      const streaming = (result.details as Details | undefined)?.streaming;
      const known = result.details?.results !== undefined;
      const plainText = [{ text: result.content?.[0]?.text ?? "", colour: "error", wraps: true }];
      const lines = streaming ? progress(streaming) : known ? report(result, options.expanded) : plainText;
      return drawn(lines, theme) as any;
    },
  });

  pi.registerCommand("toolkit", {
    description: `Outrider's reports: ${REPORTS.join(", ")}`,
    handler: async (words: string, ctx: ExtensionContext) => {
      if ((await host)?.commands === false) ctx.ui.notify("commands.enabled is off.", "warning");
      else await toolkit(words, ctx, pi);
    },
  });

  pi.on("session_start", (_event: unknown, ctx: ExtensionContext) => {
    host = readHost(ctx.cwd);
  });

  pi.on("before_agent_start", async (event: any, ctx: ExtensionContext) => {
    const { enabled, policy, problem } = await (host ??= readHost(ctx.cwd));
    if (problem && ctx.hasUI) ctx.ui.notify(problem, "warning");
    if (!enabled) pi.setActiveTools(pi.getActiveTools().filter((name) => name !== "subagent"));
    const offered = enabled && pi.getActiveTools().includes("subagent");
    const sections = event.systemPromptOptions?.sections;
    if (sections && offered && policy) sections.delegation = policy;
    else if (offered && policy) return { systemPrompt: `${event.systemPrompt}\n\n${policy}` };
  });

  pi.on("session_shutdown", () => {
    for (const stop of running) stop();
  });
}
