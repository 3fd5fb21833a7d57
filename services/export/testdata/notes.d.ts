// Written by kimbap service export --dts. What is given to a tool is checked
// when it is called; what it answers is what the service answers.

declare const tools: {
  /** team-notes 1.2.0: Notes of the team */
  teamNotes: {
    /** List notes | newest first. Risk: low. */
    listNotes(args?: {
      /** Which *​/ ones */
      state?: "open" | "done";
      tags?: ("a" | "b")[];
      limit?: number;
      "X-Trace"?: string;
    }): Promise<any>;
    /** Write a note. Risk: medium. */
    createNote(args: {
      title: string;
      pinned?: boolean;
      more?: Record<string, unknown>;
      [other: string]: unknown;
    }): Promise<any>;
    /** Make a key. Risk: critical, hands out lasting access. */
    createKey(): Promise<any>;
  };
};
