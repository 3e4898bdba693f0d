// Saves bytes as a file.

/** Saves bytes under a name. Their type says that no browser is to show them. */
export function saveAs(data: Uint8Array, name: string): void {
  const blob = new Blob([data as Uint8Array<ArrayBuffer>], { type: "application/octet-stream" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^A-Za-z0-9._-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
