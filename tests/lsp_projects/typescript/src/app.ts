import { Shape, Square, total } from "./base";

export function smallest(): Shape {
  const label = "🙂🙂"; const square = new Square(label.length);
  return square;
}

export function report(): number {
  return total([smallest()]);
}
