// @ts-check
/** Whether the page has something to say of itself: that it can be an app, or that there is a newer one. */
import { signal } from "./vendor/signals-core.js";

/** Set by install.js, which comes after the first look. */
export const offered = signal(false);
