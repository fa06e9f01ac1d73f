import { total } from "./base";

export const count: string = total([]);
